package chart

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/kcp-ipam/ipam/test/must"
)

// With its default values, the chart equals the overlays, with the image of the version.
func TestChart_EqualsTheOverlays(t *testing.T) {
	t.Parallel()
	for mode, overlay := range overlays {
		got, err := rendered(t, namespace, map[string]any{"mode": mode})
		if err != nil {
			t.Fatalf("%s: %v", mode, err)
		}
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
			Run(filesys.MakeFsOnDisk(), filepath.Join(root, "config", "deploy", "overlays", overlay))
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
		// In addition, the chart says which mode it has, and keeps the API when the release goes.
		delete(got, "ConfigMap/ipam-chart")
		for name := range want {
			if strings.HasPrefix(name, "CustomResourceDefinition/") {
				metadata, _ := got[name]["metadata"].(map[string]any)
				annotations, _ := metadata["annotations"].(map[string]any)
				if annotations["helm.sh/resource-policy"] != "keep" {
					t.Errorf("%s: helm uninstall deletes %s, and every object of it", mode, name)
				}
				delete(annotations, "helm.sh/resource-policy")
			}
			if !equality.Semantic.DeepEqual(got[name], want[name]) {
				t.Errorf("%s: %s is\n%v\nwant\n%v", mode, name, got[name], want[name])
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: the chart has %d objects; want %d", mode, len(got), len(want))
		}
	}
}

// The README names every value, and settings has a setting for each.
func TestChart_ExplainsAndTestsEachValue(t *testing.T) {
	t.Parallel()
	readme := must.Get(helm(t, "show", "readme", archive))(t)
	values := map[string]any{}
	must.Do(t, yaml.Unmarshal([]byte(must.Get(helm(t, "show", "values", archive))(t)), &values))
	for name, value := range values {
		names := []string{name}
		if group, ok := value.(map[string]any); ok && len(group) > 0 && name != "resources" {
			names = nil
			for key := range group {
				names = append(names, name+"."+key)
			}
		}
		for _, name := range names {
			if !strings.Contains(readme, "`"+name+"`") {
				t.Errorf("README.md says nothing of %s", name)
			}
			if name != "mode" && !slices.ContainsFunc(settings, func(s setting) bool { return s.name == name }) {
				t.Errorf("no setting tests the value %s", name)
			}
		}
	}
}

// The chart refuses values that cannot work, and says what to write instead.
func TestChart_RefusesValuesThatCannotWork(t *testing.T) {
	t.Parallel()
	if _, err := rendered(t, "default", nil); err == nil || !strings.Contains(err.Error(), "--namespace ipam-system") {
		t.Errorf("in another namespace: %v; want the one to name", err)
	}
	if _, err := rendered(t, namespace, map[string]any{"mode": "ha"}); err == nil || !strings.Contains(err.Error(), "external") {
		t.Errorf("in another mode: %v; want the modes", err)
	}
	for _, wrong := range []map[string]any{
		{"replica": 5}, {"image": map[string]any{"name": "other"}}, {"args": "--verbosity=1"}, {"replicas": "many"}, {"replicas": 3},
	} {
		if _, err := rendered(t, namespace, wrong); err == nil {
			t.Errorf("the values %v are rendered; want an error", wrong)
		}
	}
}
