package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the user of the pods in config/deploy.
const user = "65532:65532"

// platforms are the platforms of the image.
var platforms = []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}

// source is what an image is built from.
type source struct {
	// Package is the program, as a path of go build.
	Package string
	// Variable is the variable of the program whose value the tag becomes, by the name that the linker uses.
	Variable string
	Tag      name.Tag
	// Time is the time of everything in the image.
	Time time.Time
	// BOMs is a directory for the SBOMs. Empty writes none.
	BOMs string
}

// index builds the image of each platform.
func (s source) index(ctx context.Context) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range platforms {
		image, err := s.image(ctx, platform)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	return index, nil
}

func (s source) image(ctx context.Context, platform v1.Platform) (v1.Image, error) {
	binary, err := s.compile(ctx, platform)
	if err != nil {
		return nil, err
	}
	program := path.Base(s.Package)
	bom, err := s.bom(program, binary)
	if err == nil && s.BOMs != "" {
		file := fmt.Sprintf("%s_%s_%s.spdx.json", program, platform.OS, platform.Architecture)
		err = os.WriteFile(filepath.Join(s.BOMs, file), bom, 0o644)
	}
	if err != nil {
		return nil, err
	}
	base, err := layer(s.Time, []file{
		{"etc/passwd", 0o644, []byte("ipam:x:65532:65532::/:/sbin/nologin\n")},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities()},
	})
	if err != nil {
		return nil, err
	}
	top, err := layer(s.Time, []file{
		{program, 0o755, binary},
		{"usr/share/sbom/" + program + ".spdx.json", 0o644, bom},
	})
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, base, top); err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, s.config(image, platform))
}

// config returns the configuration of an image, which adds to its layers how it runs.
func (s source) config(image v1.Image, platform v1.Platform) *v1.ConfigFile {
	layers, _ := image.ConfigFile() // of an image in memory
	config := layers.DeepCopy()
	config.OS, config.Architecture, config.Created = platform.OS, platform.Architecture, v1.Time{Time: s.Time}
	config.History = nil
	config.Config = v1.Config{
		User:       user,
		Entrypoint: []string{"/" + path.Base(s.Package)},
		WorkingDir: "/",
		Env:        []string{"SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		Labels: map[string]string{
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source":   "https://github.com/kcp-ipam/ipam",
			"org.opencontainers.image.title":    path.Base(s.Package),
			"org.opencontainers.image.version":  s.Tag.TagStr(),
		},
	}
	return config
}

// compile builds the program for a platform: static, and without paths of this machine.
func (s source) compile(ctx context.Context, platform v1.Platform) ([]byte, error) {
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "binary")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -buildid= -X "+s.Variable+"="+s.Tag.TagStr(), "-o", binary, s.Package)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0",
		"GOOS="+platform.OS, "GOARCH="+platform.Architecture)
	if said, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build %s: %w\n%s", s.Package, err, said)
	}
	return os.ReadFile(binary)
}

// authorities returns the CA certificates of Mozilla, as PEM. A CA that Mozilla trusts with constraints is left out,
// because a file of certificates cannot express these.
func authorities() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // to memory
		}
	}
	return text.Bytes()
}
