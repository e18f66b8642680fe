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
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
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
	for name, file := range files {
		if strings.HasSuffix(name, ".yaml") {
			text = append(text, file)
		}
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

// By its defaults the chart equals the overlays, with the image of the version.
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
		// Beside them it says which mode it is, and keeps the API when the release goes.
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

// settings are a value other than the initial one for each value of the chart, and the text that it renders.
var settings = map[string]struct {
	value any
	says  string
	modes string // those in which it counts; empty means all
}{
	"image.repository":            {value: "other/ipam", says: "other/ipam:v1.2.3"},
	"image.tag":                   {value: "v9", says: "registry.example/ipam:v9"},
	"image.pullPolicy":            {value: "Always", says: "imagePullPolicy:Always"},
	"imagePullSecrets":            {value: []any{map[string]any{"name": "pull"}}, says: "imagePullSecrets:[map[name:pull]]"},
	"workspace":                   {"root:other", "--workspace=root:other", "embedded external"},
	"webhookURL":                  {"https://other.example", "--webhook-url=https://other.example", "embedded external"},
	"etcd.servers":                {[]any{"https://a:2379", "https://b:2379"}, "--etcd-servers=https://a:2379,https://b:2379", "external"},
	"replicas":                    {5, "replicas:5", "external"},
	"args":                        {value: []any{"--verbosity=1", "--workers=2"}, says: "--verbosity=1 --workers=2"},
	"env":                         {value: []any{map[string]any{"name": "A", "value": "b"}}, says: "map[name:A value:b]"},
	"resources":                   {value: map[string]any{"limits": map[string]any{"memory": "7Gi"}}, says: "resources:map[limits:map[memory:7Gi]"},
	"storage.size":                {"77Gi", "storage:77Gi", "embedded standalone"},
	"storage.className":           {"fast", "storageClassName:fast", "embedded standalone"},
	"storage.accessModes":         {[]any{"ReadWriteOnce"}, "accessModes:[ReadWriteOnce]", "embedded standalone"},
	"secrets.kubeconfig":          {"other-kubeconfig", "secretName:other-kubeconfig", "embedded external"},
	"secrets.etcd":                {"other-etcd", "secretName:other-etcd", "external"},
	"secrets.metrics":             {"other-metrics", "secretName:other-metrics", "external"},
	"nodeSelector":                {value: map[string]any{"disk": "ssd"}, says: "nodeSelector:map[disk:ssd]"},
	"tolerations":                 {value: []any{map[string]any{"key": "ipam"}}, says: "tolerations:[map[key:ipam]]"},
	"affinity":                    {value: map[string]any{"podAntiAffinity": map[string]any{}}, says: "affinity:map[podAntiAffinity:map[]]"},
	"priorityClassName":           {value: "high", says: "priorityClassName:high"},
	"podAnnotations":              {value: map[string]any{"a.example/b": "c"}, says: "annotations:map[a.example/b:c]"},
	"podLabels":                   {value: map[string]any{"team": "net"}, says: "team:net"},
	"serviceAccount.annotations":  {value: map[string]any{"role.example": "d"}, says: "annotations:map[role.example:d]"},
	"monitoring.enabled":          {value: true, says: "ServiceMonitor"},
	"networkPolicy.enabled":       {value: false},
	"podDisruptionBudget.enabled": {value: false, modes: "external"},
}

// set returns the values of one setting.
func set(name string, value any) map[string]any {
	group, key, ok := strings.Cut(name, ".")
	if !ok {
		return map[string]any{name: value}
	}
	return map[string]any{group: map[string]any{key: value}}
}

// Each value changes what is rendered in the modes in which it counts, and an API server takes everything rendered:
// no flag among the variables, no text for a number.
func TestChart_Values(t *testing.T) {
	c, err := loader.Load(made(t))
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	for mode := range overlays {
		initial, err := rendered(c, "ipam-system", map[string]any{"mode": mode})
		if err != nil {
			t.Fatalf("%s: %v", mode, err)
		}
		for name, setting := range settings {
			if setting.modes != "" && !strings.Contains(setting.modes, mode) {
				continue
			}
			with := set(name, setting.value)
			with["mode"] = mode
			got, err := rendered(c, "ipam-system", with)
			if err != nil {
				t.Errorf("%s, %s: %v", mode, name, err)
				continue
			}
			if equality.Semantic.DeepEqual(got, initial) || !strings.Contains(fmt.Sprint(got), setting.says) {
				t.Errorf("%s: no object has %q of the value %s", mode, setting.says, name)
			}
			for object, content := range got {
				if err := strict(content); err != nil {
					t.Errorf("%s, %s: %s: %v", mode, name, object, err)
				}
			}
		}
	}
}

// strict reads an object as an API server does that refuses fields which it does not know. Of the workloads, the others are as
// the overlays have them.
func strict(object map[string]any) error {
	var into any
	switch object["kind"] {
	case "Deployment":
		into = &appsv1.Deployment{}
	case "StatefulSet":
		into = &appsv1.StatefulSet{}
	case "ServiceAccount":
		into = &corev1.ServiceAccount{}
	case "PodDisruptionBudget":
		into = &policyv1.PodDisruptionBudget{}
	default:
		return nil
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	return yaml.UnmarshalStrict(text, into)
}

// The README names every value, and every value has a setting above.
func TestChart_ReadmeAndSettings(t *testing.T) {
	c, err := loader.Load(made(t))
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	var readme string
	for _, file := range c.Files {
		if file.Name == "README.md" {
			readme = string(file.Data)
		}
	}
	for name, value := range c.Values {
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
			if _, ok := settings[name]; !ok && name != "mode" && name != "monitoring.labels" && name != "monitoring.tlsConfig" {
				t.Errorf("no setting tests the value %s", name)
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
	for _, wrong := range []map[string]any{
		{"replica": 5}, {"image": map[string]any{"name": "other"}}, {"args": "--verbosity=1"}, {"replicas": "many"}, {"replicas": 3},
	} {
		if _, err := rendered(c, "ipam-system", wrong); err == nil {
			t.Errorf("the values %v are rendered; want an error", wrong)
		}
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
