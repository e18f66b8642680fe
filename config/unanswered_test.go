package config

import (
	"reflect"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
)

// unanswered returns the conditions of an object that nobody has answered.
func unanswered() []any {
	return []any{map[string]any{
		"type": ipamv1alpha1.ConditionReady, "status": "Unknown", "reason": string(ipamv1alpha1.ReasonPending),
		"message": "the controller has not answered yet", "lastTransitionTime": "1970-01-01T00:00:00Z",
	}}
}

// The schemas give a new object a condition that is Unknown. A tool that reads only conditions takes an object
// without any for ready.
func TestSchemas_DefaultToTheUnansweredCondition(t *testing.T) {
	for _, crd := range allCRDs(t) {
		for _, version := range crd.Spec.Versions {
			one := crd.DeepCopy()
			one.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{version}
			door := doorOf(t, one)
			for _, sent := range []string{"{spec: {}}", "{spec: {}, status: {}}", "{spec: {}, status: {phase: Pending}}"} {
				read := object(t, sent)
				defaulting.Default(read, door.structural)
				if got := read["status"].(map[string]any)["conditions"]; !reflect.DeepEqual(got, unanswered()) {
					t.Errorf("%s %s: the conditions of %s are %v; want %v", crd.Name, version.Name, sent, got, unanswered())
				}
			}
			answered := object(t, "{spec: {}, status: {conditions: [{type: Allocated}]}}")
			defaulting.Default(answered, door.structural)
			if got := answered["status"].(map[string]any)["conditions"].([]any); len(got) != 1 {
				t.Errorf("%s %s: an answered object has the conditions %v; want its own alone", crd.Name, version.Name, got)
			}
		}
	}
}

// The server records the condition from the schema as written by the client. The policies admit it, so that a claim
// is created even without the webhook, which removes it.
func TestPolicies_AdmitTheUnansweredCondition(t *testing.T) {
	for name, all := range map[string]map[string]policy{"kcp": policies(t), "standalone": policiesOf(t, StandalonePolicies())} {
		for _, tt := range []struct{ name, field, value, want string }{
			{"the default", "message", "the controller has not answered yet", ""},
			{"another message", "message", "forged", "Deny: the status is written by the system: remove status"},
			{"another status", "status", "True", "Deny: the status is written by the system: remove status"},
			{"another type", "type", "Allocated", "Deny: the status is written by the system: remove status"},
			{"another reason", "reason", "AllocationSucceeded", "Deny: the status is written by the system: remove status"},
		} {
			t.Run(name+", "+tt.name, func(t *testing.T) {
				conditions := unanswered()
				conditions[0].(map[string]any)[tt.field] = tt.value
				claim := created(`"f:spec":{},"f:status":{"f:conditions":{".":{}}}`)
				status := map[string]any{"conditions": conditions}
				must.Do(t, runtime.DefaultUnstructuredConverter.FromUnstructured(status, &claim.Status))
				expect(t, request{others["a tenant"], admission.Create, "ipclaims", claim}.denied(t, all), tt.want)
			})
		}
		bound := created(`"f:spec":{},"f:status":{}`, `"f:status":{"f:phase":{}}`)
		must.Do(t, runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{
			"phase": "Bound", "conditions": unanswered()}, &bound.Status))
		expect(t, request{others["a tenant"], admission.Create, "ipclaims", bound}.denied(t, all),
			"Deny: the status is written by the system: remove status")
	}
}
