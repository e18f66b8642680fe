package v1alpha1

import (
	"maps"
	"slices"
	"strings"
)

// Roles that no scope has: a class says by them in spec.poolPer whose its pools are.
const (
	// RoleProject gives each workspace pools of its own.
	RoleProject = "project"
	// RoleAllProjects makes all workspaces share the pools.
	RoleAllProjects = "allProjects"
)

// ScopeRef names an object for which address space is told apart, such as a network. References are
// compared, and never resolved: the object need not exist.
type ScopeRef struct {
	// apiGroup of the object. Empty for the core group.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`

	// kind of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Kind string `json:"kind"`

	// name of the object. A reference without one counts as missing.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name"`
}

// String writes the reference as kind.group/name.
func (r ScopeRef) String() string {
	kind := r.Kind
	if r.APIGroup != "" {
		kind += "." + r.APIGroup
	}
	return kind + "/" + r.Name
}

// Scope has the object for each role, such as network or location.
// +kubebuilder:validation:MaxProperties=16
// +kubebuilder:validation:XValidation:rule="self.all(role, role.matches('^[A-Za-z]([-_A-Za-z0-9]{0,61}[A-Za-z0-9])?$'))",message="invalid role in scope: write a word of at most 63 letters, digits and hyphens, such as network or location"
// +kubebuilder:validation:XValidation:rule="!('project' in self) && !('allProjects' in self)",message="project and allProjects are no roles of a scope: remove them; the workspace is always that of the request"
// +kubebuilder:validation:XValidation:rule="self.all(role, !has(self[role].name) || !self[role].name.matches('[\\\\s,=[:cntrl:]]'))",message="invalid name in scope: write one without blanks, commas, equals signs and control characters, such as vpc-1"
type Scope map[string]ScopeRef

// Only returns the part of the scope that has these roles.
func (s Scope) Only(roles []string) Scope {
	part := Scope{}
	for _, role := range roles {
		if ref, ok := s[role]; ok {
			part[role] = ref
		}
	}
	return part
}

// Missing returns those of the roles for which the scope names no object, in their order.
func (s Scope) Missing(roles []string) []string {
	return slices.DeleteFunc(slices.Clone(roles), func(role string) bool { return s[role].Name != "" })
}

// ScopeColumn lists the objects of a scope by the roles' names, such as location=ams,network=vpc-1.
func ScopeColumn(s Scope) string {
	parts := make([]string, 0, len(s))
	for _, role := range slices.Sorted(maps.Keys(s)) {
		parts = append(parts, role+"="+s[role].Name)
	}
	return strings.Join(parts, ",")
}

// ClassRef names an IPClass.
type ClassRef struct {
	// name of the IPClass.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name"`
}
