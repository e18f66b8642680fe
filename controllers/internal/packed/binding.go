package packed

import (
	"maps"
	"slices"
	"strings"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
)

// converted is the prefix of the annotations in which kcp keeps what this version of APIBindings has no
// fields for.
const converted = "apis.v1alpha2.kcp.io/"

// trim removes all of a binding's status but what shows whether it serves its workspace. The controllers
// read no more of it, and write none. What kcp writes there about schemas and permissions is several KiB
// for each workspace.
func trim(binding *apisv1alpha1.APIBinding) {
	conditions := slices.DeleteFunc(binding.Status.Conditions, func(c conditionsv1alpha1.Condition) bool {
		return c.Type != conditionsv1alpha1.ReadyCondition
	})
	maps.DeleteFunc(binding.Annotations, func(name, _ string) bool { return strings.HasPrefix(name, converted) })
	binding.Status = apisv1alpha1.APIBindingStatus{Phase: binding.Status.Phase, Conditions: slices.Clone(conditions)}
}
