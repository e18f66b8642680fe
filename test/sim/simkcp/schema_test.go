package simkcp

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// fill gives an object whose status was dropped the status that the schema has as a default.
func TestForm_DefaultsAStatusThatWasDropped(t *testing.T) {
	t.Parallel()
	f := compile(&apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"status": {
			Type: "object", Default: &apiextensionsv1.JSON{Raw: []byte("{}")},
			Properties: map[string]apiextensionsv1.JSONSchemaProps{"phase": {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"Pending"`)}}},
		},
	}})
	o := map[string]any{}
	f.fill(o)
	if phase, _, _ := unstructured.NestedString(o, "status", "phase"); phase != "Pending" {
		t.Errorf("the object is %v, want the default of status.phase", o)
	}
}

// If the spec stays, status and spec are judged apart. A rule on the spec that depends on the old status sees both.
func TestForm_JudgesTheStatusApart(t *testing.T) {
	t.Parallel()
	f := forms()[served{true, "ippools", "v1alpha1"}]
	if f.status == nil || !f.guards || f.status.compares {
		t.Fatalf("the status of pools is not judged apart: %+v", f)
	}
	pool := func(domain, used, phase string) map[string]any {
		inUse := map[string]any{
			"type": "InUse", "status": used, "reason": "InUse", "message": "", "lastTransitionTime": "2000-01-01T00:00:00Z", "observedGeneration": int64(1),
		}
		return map[string]any{
			"apiVersion": "ipam.miloapis.com/v1alpha1", "kind": "IPPool", "metadata": map[string]any{"name": "p"},
			"spec":   map[string]any{"cidr": "10.0.0.0/24", "addressDomain": domain, "slices": map[string]any{"prefixLength": int64(28)}},
			"status": map[string]any{"phase": phase, "conditions": []any{inUse}},
		}
	}
	used, unused := pool("d", "True", "Ready"), pool("d", "False", "Ready")
	for name, tt := range map[string]struct {
		object, old map[string]any
		want        bool
	}{
		"the status changes":                     {pool("d", "True", "Exhausted"), used, true},
		"the status becomes wrong":               {pool("d", "True", "Nonsense"), used, false},
		"the spec of a pool in use changes":      {pool("e", "True", "Ready"), used, false},
		"the spec of a pool that is not changes": {pool("e", "False", "Ready"), unused, true},
	} {
		admitted, faults := f.refusals(t.Context(), nil, tt.object, tt.old), f.faults(t.Context(), nil, tt.object, tt.old)
		if len(faults) == 0 != tt.want || len(admitted) != len(faults) {
			t.Errorf("%s: apart %v, as a whole %v; want faults: %t", name, admitted, faults, !tt.want)
		}
	}
}
