package main

import (
	"archive/tar"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// hello builds the image of a small program, and returns its file, its digest and the image.
func hello(t *testing.T) (string, v1.Hash, v1.ImageIndex) {
	t.Helper()
	tag, err := name.NewTag("example.com/hello:v1.2.3")
	if err != nil {
		t.Fatalf("NewTag: %v", err)
	}
	to := filepath.Join(t.TempDir(), "hello.tar")
	digest, err := source{Package: "./testdata/hello", Variable: "main.version", Tag: tag, Time: time.Unix(1_700_000_000, 0).UTC()}.write(t.Context(), to)
	if err != nil {
		t.Fatalf("write: %v", err)
	}
	index, err := unpack(to, t.TempDir())
	if err != nil {
		t.Fatalf("unpack: %v", err)
	}
	return to, digest, index
}

func TestImage_HasTheSameDigestInEachBuild(t *testing.T) {
	_, first, _ := hello(t)
	_, second, index := hello(t)
	if first != second {
		t.Errorf("built twice, the digests are %s and %s", first, second)
	}
	if stored, err := index.Digest(); err != nil || stored != first {
		t.Errorf("the file has %s, %v; want %s", stored, err, first)
	}
}

func TestImage_HasEachPlatform(t *testing.T) {
	_, _, index := hello(t)
	if err := validate.Index(index); err != nil {
		t.Fatalf("Index: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatalf("IndexManifest: %v", err)
	}
	var found []string
	for _, one := range manifest.Manifests {
		found = append(found, one.Platform.String())
		image, err := index.Image(one.Digest)
		if err != nil {
			t.Fatalf("Image: %v", err)
		}
		checkConfig(t, image, one.Platform)
		checkFiles(t, image)
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(found, want) {
		t.Errorf("the platforms are %v; want %v", found, want)
	}
}

func checkConfig(t *testing.T, image v1.Image, platform *v1.Platform) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatalf("ConfigFile: %v", err)
	}
	if c := config.Config; c.User != user || !slices.Equal(c.Entrypoint, []string{"/hello"}) || c.Labels["org.opencontainers.image.version"] != "v1.2.3" {
		t.Errorf("the config is %+v", c)
	}
	if config.Architecture != platform.Architecture || config.OS != platform.OS || config.Created.Unix() != 1_700_000_000 {
		t.Errorf("the config is of %s/%s at %s; want %s", config.OS, config.Architecture, config.Created, platform)
	}
}

func checkFiles(t *testing.T, image v1.Image) {
	t.Helper()
	files := map[string][]byte{}
	flat := mutate.Extract(image)
	defer func() { _ = flat.Close() }()
	for in := tar.NewReader(flat); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.ModTime.Unix() != 1_700_000_000 {
			t.Errorf("%s is of %s", header.Name, header.ModTime)
		}
		if files[header.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
		if header.Name == "hello" && header.Mode != 0o755 {
			t.Errorf("the program has mode %o", header.Mode)
		}
	}
	if !strings.HasPrefix(string(files["hello"]), "\x7fELF") {
		t.Error("the image has no program")
	}
	if !strings.Contains(string(files["hello"]), "v1.2.3") {
		t.Error("the program does not know its version, v1.2.3")
	}
	if !x509.NewCertPool().AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"]) {
		t.Error("the image has no CA certificates")
	}
	var bom document
	if err := json.Unmarshal(files["usr/share/sbom/hello.spdx.json"], &bom); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	if len(bom.Packages) < 2 || bom.Packages[0].Version != "v1.2.3" || bom.Packages[1].Name != "stdlib" {
		t.Errorf("the SBOM lists %+v", bom.Packages)
	}
}

func TestPush(t *testing.T) {
	file, digest, _ := hello(t)
	server := httptest.NewServer(registry.New())
	defer server.Close()
	tag, err := name.NewTag(strings.TrimPrefix(server.URL, "http://") + "/hello:v1.2.3")
	if err != nil {
		t.Fatalf("NewTag: %v", err)
	}
	said, err := push(t.Context(), file, tag)
	if err != nil || said != digest {
		t.Fatalf("push says %s, %v; want %s", said, err, digest)
	}
	pushed, err := remote.Get(tag)
	if err != nil || pushed.Digest != digest {
		t.Fatalf("the registry has %v, %v; want %s", pushed, err, digest)
	}
}
