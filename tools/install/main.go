// Command install writes the manifests that install the controller without a clone: one file for
// each way to run it, with the image of a version. It runs from the root of the repository.
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

// overlays are the overlays of config/deploy that run as they are, by the file that installs them.
var overlays = map[string]string{"install-kcp.yaml": "dev", "install-kubernetes.yaml": "standalone"}

func main() {
	out := flag.String("out", "dist", "Directory of the manifests")
	repository := flag.String("image", image, "Name of the image, without a tag")
	version := flag.String("version", "", "Tag of the image, such as v1.0.0")
	flag.Parse()
	for file, overlay := range overlays {
		manifest, err := render(".", overlay, *repository, *version)
		if err == nil {
			err = os.WriteFile(filepath.Join(*out, file), manifest, 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "install: %s: %v\n", file, err)
			os.Exit(1)
		}
	}
}

// render builds an overlay with an image. The overlay is below root.
func render(root, overlay, repository, version string) ([]byte, error) {
	if version == "" {
		return nil, fmt.Errorf("--version is empty; write a tag such as v1.0.0")
	}
	top, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(top, ".install")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	with, err := yaml.Marshal(types.Kustomization{
		TypeMeta:  types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind},
		Resources: []string{filepath.Join("..", "config", "deploy", "overlays", overlay)},
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
