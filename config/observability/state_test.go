package observability

import (
	"os"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/kcp-ipam/ipam/test/must"
)

// stateMetrics is the configuration of kube-state-metrics, as far as it is used here.
type stateMetrics struct {
	Kind string `json:"kind"`
	Spec struct {
		Resources []struct {
			GroupVersionKind struct{ Group, Version, Kind string } `json:"groupVersionKind"`
			MetricNamePrefix string                                `json:"metricNamePrefix"`
			LabelsFromPath   map[string][]string                   `json:"labelsFromPath"`
			Metrics          []struct {
				Name, Help string
				Each       struct {
					Type  string
					Gauge struct {
						Path []string `json:"path"`
					} `json:"gauge"`
				} `json:"each"`
			} `json:"metrics"`
		} `json:"resources"`
	} `json:"spec"`
}

// The paths in the configuration of kube-state-metrics exist in the schema of the kind, and the value is a number. The page
// shows the file as it is.
func TestStateMetrics_NameFieldsOfTheSchema(t *testing.T) {
	text := must.Get(os.ReadFile("kube-state-metrics.yaml"))(t)
	var file stateMetrics
	must.Do(t, yaml.UnmarshalStrict(text, &file))
	var crd apiextensionsv1.CustomResourceDefinition
	must.Do(t, yaml.Unmarshal(must.Get(os.ReadFile("../crd/ipam.miloapis.com_ippools.yaml"))(t), &crd))
	if file.Kind != "CustomResourceStateMetrics" || len(file.Spec.Resources) != 1 {
		t.Fatalf("it is a %s with %d resources; want one CustomResourceStateMetrics with one", file.Kind, len(file.Spec.Resources))
	}
	pools := file.Spec.Resources[0]
	at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Served && v.Name == pools.GroupVersionKind.Version
	})
	if at < 0 || pools.GroupVersionKind.Group != crd.Spec.Group || pools.GroupVersionKind.Kind != crd.Spec.Names.Kind {
		t.Fatalf("it is about %+v; want a version of %s, %s", pools.GroupVersionKind, crd.Spec.Group, crd.Spec.Names.Kind)
	}
	schema := *crd.Spec.Versions[at].Schema.OpenAPIV3Schema
	typeOf := func(path []string) string {
		if slices.Equal(path, []string{"metadata", "name"}) {
			return "string"
		}
		field := schema
		for _, name := range path {
			field = field.Properties[name]
		}
		return field.Type
	}
	for label, path := range pools.LabelsFromPath {
		if typeOf(path) != "string" {
			t.Errorf("the label %s is from %v, of type %q; want a string", label, path, typeOf(path))
		}
	}
	for _, metric := range pools.Metrics {
		if got := typeOf(metric.Each.Gauge.Path); metric.Each.Type != "Gauge" || got != "number" {
			t.Errorf("the metric %s is a %s of %v, of type %q; want a Gauge of a number", metric.Name, metric.Each.Type, metric.Each.Gauge.Path, got)
		}
	}
	page := string(must.Get(os.ReadFile("../../docs/tenant.md"))(t))
	_, config, _ := strings.Cut(string(text), "kind: ")
	if !strings.Contains(page, "```yaml\nkind: "+config+"```\n") {
		t.Error("docs/tenant.md does not show kube-state-metrics.yaml as it is")
	}
	for _, metric := range pools.Metrics {
		if name := "kube_customresource_" + pools.MetricNamePrefix + "_" + metric.Name; strings.Contains(page, name) || !strings.Contains(page, pools.MetricNamePrefix+"_"+metric.Name) {
			t.Errorf("docs/tenant.md does not name the metric %s_%s", pools.MetricNamePrefix, metric.Name)
		}
	}
}
