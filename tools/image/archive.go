package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// file is a file of an archive.
type file struct {
	name string
	mode int64
	data []byte
}

// archive writes files, with the directories that they are in.
func archive(w io.Writer, at time.Time, files []file) error {
	out, made := tar.NewWriter(w), map[string]bool{".": true}
	for _, f := range files {
		if err := parents(out, made, at, path.Dir(f.name)); err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: at, Format: tar.FormatPAX}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		if _, err := out.Write(f.data); err != nil {
			return err
		}
	}
	return out.Close()
}

func parents(out *tar.Writer, made map[string]bool, at time.Time, dir string) error {
	if made[dir] {
		return nil
	}
	made[dir] = true
	if err := parents(out, made, at, path.Dir(dir)); err != nil {
		return err
	}
	return out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: at, Format: tar.FormatPAX})
}

func layer(at time.Time, files []file) (v1.Layer, error) {
	var data bytes.Buffer
	if err := archive(&data, at, files); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}

// write builds the image into a file, and returns its digest.
func (s source) write(ctx context.Context, to string) (v1.Hash, error) {
	index, err := s.index(ctx)
	if err != nil {
		return v1.Hash{}, err
	}
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return v1.Hash{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	files, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	err = files.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          s.Tag.Name(),
		"org.opencontainers.image.ref.name": s.Tag.TagStr(),
	}))
	if err != nil {
		return v1.Hash{}, err
	}
	if err := s.pack(dir, to); err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

// pack writes a directory as an archive, in the order of its names.
func (s source) pack(dir, to string) (err error) {
	var files []file
	err = filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(at)
		files = append(files, file{filepath.ToSlash(name), 0o644, data})
		return err
	})
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return archive(out, s.Time, files)
}

// unpack extracts the file that write made into a directory, and returns the image.
func unpack(from, dir string) (v1.ImageIndex, error) {
	in, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	for files := tar.NewReader(in); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		if header.Typeflag == tar.TypeDir {
			err = root.MkdirAll(path.Clean(header.Name), 0o755)
		} else {
			err = extract(root, header.Name, files)
		}
		if err != nil {
			return nil, err
		}
	}
	return only(dir)
}

func extract(root *os.Root, name string, data io.Reader) error {
	out, err := root.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, data)
	return errors.Join(err, out.Close())
}

// only returns the one image of a layout.
func only(dir string) (v1.ImageIndex, error) {
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("the layout has %d images; want 1", len(manifest.Manifests))
	}
	return top.ImageIndex(manifest.Manifests[0].Digest)
}

// push copies an image from a file to a registry, with the credentials of docker login, and returns its digest.
func push(ctx context.Context, from string, to name.Tag) (v1.Hash, error) {
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return v1.Hash{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	index, err := unpack(from, dir)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := remote.WriteIndex(to, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}
