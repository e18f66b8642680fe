package simkcp

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// An object whose status was dropped is read with the status that the schema defaults.
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
