// Package chart tests the Helm chart that tools/install makes of the overlays of config/deploy.
package chart

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// overlays are those of config/deploy that the modes are made of.
var overlays = map[string]string{"embedded": "dev", "external": "ha", "standalone": "standalone"}

// made makes the chart, and returns its archive.
func made(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	install := exec.CommandContext(t.Context(), "go", "run", "./tools/install", "-out", dir, "-image", "registry.example/ipam", "-version", "v1.2.3")
	install.Dir = filepath.Join("..", "..")
	if said, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", install.Args, err, said)
	}
	return filepath.Join(dir, "kcp-ipam-1.2.3.tgz")
}

// rendered returns the objects of a chart, by kind and name.
func rendered(c *chart.Chart, namespace string, values map[string]any) (map[string]map[string]any, error) {
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "ipam", Namespace: namespace}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	var text []string
	for _, file := range files {
		text = append(text, file)
	}
	return objects(strings.Join(text, "\n---\n"))
}

// objects reads manifests, without their namespaces.
func objects(text string) (map[string]map[string]any, error) {
	found := map[string]map[string]any{}
	for document := range strings.SplitSeq(text, "\n---\n") {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return nil, err
		}
		if metadata, ok := object["metadata"].(map[string]any); ok && object["kind"] != "Namespace" {
			found[fmt.Sprint(object["kind"], "/", metadata["name"])] = object
		}
	}
	return found, nil
}

// By its defaults the chart is what the overlays are, with the image of the version.
func TestChart_IsTheOverlays(t *testing.T) {
	c, err := loader.Load(made(t))
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	for mode, overlay := range overlays {
		got, err := rendered(c, "ipam-system", map[string]any{"mode": mode})
		if err != nil {
			t.Fatalf("%s: %v", mode, err)
		}
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
			Run(filesys.MakeFsOnDisk(), filepath.Join("..", "..", "config", "deploy", "overlays", overlay))
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := built.AsYaml()
		if err != nil {
			t.Fatalf("AsYaml: %v", err)
		}
		want, err := objects(strings.ReplaceAll(string(manifest), "ipam-controller:latest", "registry.example/ipam:v1.2.3"))
		if err != nil {
			t.Fatalf("objects: %v", err)
		}
		for name := range want {
			if !equality.Semantic.DeepEqual(got[name], want[name]) {
				t.Errorf("%s: %s is\n%v\nwant\n%v", mode, name, got[name], want[name])
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: the chart has %d objects; want %d", mode, len(got), len(want))
		}
	}
}

// Every value changes what is rendered.
func TestChart_Values(t *testing.T) {
	c, err := loader.Load(made(t))
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	for mode, words := range map[string][]string{
		"embedded":   {"--workspace=root:other", "--webhook-url=https://other.example", "--verbosity=1", "other/ipam:v9", "memory:7Gi", "storage:77Gi"},
		"external":   {"--workspace=root:other", "--webhook-url=https://other.example", "--verbosity=1", "other/ipam:v9", "memory:7Gi", "--etcd-servers=https://a:2379,https://b:2379", "replicas:5"},
		"standalone": {"--verbosity=1", "other/ipam:v9", "memory:7Gi", "storage:77Gi"},
	} {
		got, err := rendered(c, "ipam-system", map[string]any{
			"mode": mode, "workspace": "root:other", "webhookURL": "https://other.example", "args": []any{"--verbosity=1"},
			"image": map[string]any{"repository": "other/ipam", "tag": "v9"}, "replicas": 5, "storage": "77Gi",
			"resources": map[string]any{"limits": map[string]any{"memory": "7Gi"}},
			"etcd":      map[string]any{"servers": []any{"https://a:2379", "https://b:2379"}},
		})
		if err != nil {
			t.Fatalf("%s: %v", mode, err)
		}
		for _, word := range words {
			if !strings.Contains(fmt.Sprint(got), word) {
				t.Errorf("%s: no object has %s", mode, word)
			}
		}
	}
}

// What cannot work is refused, with what to write instead.
func TestChart_Refuses(t *testing.T) {
	c, err := loader.Load(made(t))
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if _, err := rendered(c, "default", nil); err == nil || !strings.Contains(err.Error(), "--namespace ipam-system") {
		t.Errorf("in another namespace: %v; want the one to name", err)
	}
	if _, err := rendered(c, "ipam-system", map[string]any{"mode": "ha"}); err == nil || !strings.Contains(err.Error(), "external") {
		t.Errorf("in another mode: %v; want the modes", err)
	}
}

// Helm's own linter has nothing against the chart but that it has no icon.
func TestChart_Lints(t *testing.T) {
	dir := t.TempDir()
	if err := chartutil.ExpandFile(dir, made(t)); err != nil {
		t.Fatalf("ExpandFile: %v", err)
	}
	for _, message := range lint.All(filepath.Join(dir, "kcp-ipam"), nil, "ipam-system", true).Messages {
		if message.Severity > support.InfoSev {
			t.Error(message)
		}
	}
}
