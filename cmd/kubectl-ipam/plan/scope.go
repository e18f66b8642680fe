package plan

import (
	"maps"
	"slices"
	"strings"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// ParseScope reads the object of a role, such as network=vpc-1, network=Network/vpc-1 or
// network=Network.networking.example.com/vpc-1, into a scope. Without a kind, that is the role with a capital letter. ok is false for any
// other text, and for a role that the scope has already.
func ParseScope(text string, into ipamv1alpha1.Scope) (ok bool) {
	role, name, ok := strings.Cut(text, "=")
	if _, given := into[role]; !ok || given || role == "" {
		return false
	}
	ref := ipamv1alpha1.ScopeRef{Kind: kindOfRole(role)}
	if kind, of, named := strings.Cut(name, "/"); named {
		ref.Kind, ref.APIGroup, _ = strings.Cut(kind, ".")
		name = of
	}
	ref.Name = name
	if ref.Kind == "" || ref.Name == "" || strings.Contains(ref.Name, "/") {
		return false
	}
	into[role] = ref
	return true
}

// kindOfRole returns the kind of the objects of a role, unless another one is given.
func kindOfRole(role string) string { return strings.ToUpper(role[:1]) + role[1:] }

// scopeText lists what ParseScope reads, by the names of the roles.
func scopeText(scope ipamv1alpha1.Scope) string {
	words := make([]string, 0, len(scope))
	for _, role := range slices.Sorted(maps.Keys(scope)) {
		ref := scope[role]
		object := ref.Name
		if ref.APIGroup != "" || ref.Kind != kindOfRole(role) {
			object = ref.String()
		}
		words = append(words, role+"="+object)
	}
	return strings.Join(words, " ")
}

// scope reads the objects of a cell.
func (r row) scope() ipamv1alpha1.Scope {
	var scope ipamv1alpha1.Scope
	for _, word := range r.words(columnScope) {
		if scope == nil {
			scope = ipamv1alpha1.Scope{}
		}
		if !ParseScope(word, scope) {
			r.wrong(columnScope, "%s names no object of a role: write each role once, as network=vpc-1 or network=Network.networking.example.com/vpc-1", quoted(word))
		}
	}
	return scope
}
