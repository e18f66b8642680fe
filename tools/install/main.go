// Command install writes the manifests that install the controller without a clone: one file for
// each way to run it, with the image of a version, and a Helm chart of all. It runs from the root of the repository.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// image is the name of the image in config/deploy.
const image = "ipam-controller"

// overlays are the folders below config that run as they are, by the file that installs them.
var overlays = map[string]string{
	"install-kcp.yaml": "deploy/overlays/dev", "install-kubernetes.yaml": "deploy/overlays/standalone",
	"ipam-components.yaml": "capi",
}

// metadata says which contract of Cluster API ipam-components.yaml is made for. clusterctl reads both files.
const metadata = "config/capi/metadata.yaml"

func main() {
	out := flag.String("out", "dist", "Directory of the manifests")
	repository := flag.String("image", image, "Name of the image, without a tag")
	version := flag.String("version", "", "Tag of the image, such as v1.0.0")
	flag.Parse()
	if err := write(*out, *repository, *version); err != nil {
		fmt.Fprintf(os.Stderr, "install: %v\n", err)
		os.Exit(1)
	}
}

// write writes the manifests, the Helm chart, and the metadata for clusterctl.
func write(out, repository, version string) error {
	for file, overlay := range overlays {
		manifest, err := render(".", overlay, repository, version)
		if err == nil {
			err = os.WriteFile(filepath.Join(out, file), manifest, 0o644)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if err := writeChart(".", out, repository, version); err != nil {
		return fmt.Errorf("the Helm chart: %w", err)
	}
	data, err := os.ReadFile(metadata)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, filepath.Base(metadata)), data, 0o644)
}

// render builds an overlay with an image. root is the folder that contains config.
func render(root, overlay, repository, version string) ([]byte, error) {
	if version == "" {
		return nil, fmt.Errorf("--version is empty; write a tag such as v1.0.0")
	}
	dir, err := os.MkdirTemp(root, ".install")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	with, err := yaml.Marshal(types.Kustomization{
		TypeMeta:  types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind},
		Resources: []string{filepath.Join("..", "config", overlay)},
		Images:    []types.Image{{Name: image, NewName: repository, NewTag: version}},
	})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), with, 0o600); err != nil {
		return nil, err
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	return built.AsYaml()
}
