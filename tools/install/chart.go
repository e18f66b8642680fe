package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// chartName is the name of the Helm chart, and of the folder in its archive.
const chartName = "kcp-ipam"

// modes are the overlays of the chart, by the value of mode that chooses one.
var modes = map[string]string{
	"embedded": "deploy/overlays/dev", "external": "deploy/overlays/ha", "standalone": "deploy/overlays/standalone",
}

// sources are the files of the chart beside the overlays.
//
//go:embed chart
var sources embed.FS

// released matches a version that Helm takes as it is.
var released = regexp.MustCompile(`^v?\d+\.\d+\.\d+`)

// chartVersion returns the version of the chart. Helm accepts only semantic versions, so a commit becomes a
// pre-release.
func chartVersion(version string) string {
	if !released.MatchString(version) {
		return "0.0.0-" + version
	}
	return strings.TrimPrefix(version, "v")
}

// writeChart writes an archive with a Helm chart of the overlays. root is the folder that contains config.
func writeChart(root, out, repository, version string) error {
	about, err := yaml.Marshal(map[string]any{
		"apiVersion": "v2", "name": chartName, "type": "application",
		"description": "IP address management for the workspaces of a kcp, or for one Kubernetes cluster",
		"version":     chartVersion(version), "appVersion": version,
		"home": "https://github.com/kcp-ipam/ipam", "icon": "https://raw.githubusercontent.com/kcp-ipam/ipam/main/docs/images/icon.svg",
		"sources": []string{"https://github.com/kcp-ipam/ipam"}, "kubeVersion": ">=1.31.0-0",
	})
	if err != nil {
		return err
	}
	files, err := chartFiles(root, repository)
	if err != nil {
		return err
	}
	files["Chart.yaml"] = string(about)
	for mode, overlay := range modes {
		manifest, err := render(root, overlay, "placeholder", "placeholder")
		if err != nil {
			return err
		}
		if files["templates/"+mode+".yaml"], err = template(mode, string(manifest)); err != nil {
			return fmt.Errorf("%s: %w", overlay, err)
		}
	}
	archive, err := packed(files)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, chartName+"-"+chartVersion(version)+".tgz"), archive, 0o644)
}

// packed returns a compressed archive of files in the folder of the chart.
func packed(files map[string]string) ([]byte, error) {
	var archive bytes.Buffer
	compressed := gzip.NewWriter(&archive)
	to := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{Name: chartName + "/" + name, Mode: 0o644, Size: int64(len(files[name]))}
		if err := to.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(to, files[name]); err != nil {
			return nil, err
		}
	}
	err := errors.Join(to.Close(), compressed.Close())
	return archive.Bytes(), err
}

// chartFiles returns the files of the chart that are the same in all modes.
func chartFiles(root, repository string) (map[string]string, error) {
	files := map[string]string{"values.yaml": valuesFile(repository)}
	for name, from := range map[string]string{
		"templates/mode.yaml": "mode.yaml", "templates/monitoring.yaml": "monitoring.yaml", "templates/NOTES.txt": "NOTES.txt", "README.md": "README.md",
	} {
		data, err := sources.ReadFile("chart/" + from)
		if err != nil {
			return nil, err
		}
		files[name] = string(data)
	}
	for _, name := range []string{"alerts.yaml", "dashboard.json"} {
		data, err := os.ReadFile(filepath.Join(root, "config", "observability", name))
		if err != nil {
			return nil, err
		}
		files["files/"+name] = string(data)
	}
	files["README.md"] = readme(files["README.md"], repository)
	var err error
	files["values.schema.json"], err = schemaFile()
	return files, err
}

// template makes a template of an overlay. A value without a place in it is an error: the overlay has changed, and the
// chart would ignore the value.
func template(mode, manifest string) (string, error) {
	found := map[string]int{}
	var documents []string
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return "", err
		}
		kind, _ := object["kind"].(string)
		if kind == "Namespace" { // helm install --create-namespace makes it
			continue
		}
		if kind == "CustomResourceDefinition" {
			keep(object)
		}
		text, err := templated(mode, object, found)
		if err != nil {
			return "", err
		}
		documents = append(documents, text)
	}
	for _, v := range values {
		if len(v.slots) > 0 && v.in(mode) && found[v.name] != len(v.slots) {
			return "", fmt.Errorf("the value %s has %d places in mode %s; want %d", v.name, found[v.name], mode, len(v.slots))
		}
	}
	return fmt.Sprintf("{{- if eq .Values.mode %q }}\n%s\n{{- end }}\n", mode, strings.Join(documents, "\n---\n")), nil
}

// keep marks an object that Helm leaves in place when the release goes. Without the API, all claims would go, too.
func keep(object map[string]any) {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations["helm.sh/resource-policy"] = "keep"
}
