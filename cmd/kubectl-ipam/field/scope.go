package field

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Scope takes the objects of a scope, each role once.
func Scope(at *ipamv1alpha1.Scope) pflag.Value {
	return &several{kind: "stringArray", get: func() []string { return scopeWords(*at) }, add: func(text string) error {
		scope := *at
		if scope == nil {
			scope = ipamv1alpha1.Scope{}
		}
		if !addRole(text, scope) {
			return errors.New("no object of a role: write each role once, as ROLE=NAME, ROLE=KIND/NAME or ROLE=KIND.GROUP/NAME, such as network=vpc-1 or network=Network.networking.example.com/vpc-1")
		}
		*at = scope
		return nil
	}}
}

// addRole reads the object of a role, such as network=vpc-1, network=Network/vpc-1 or
// network=Network.networking.example.com/vpc-1, into a scope. Without a kind, that is the role with a capital letter. ok is false for any
// other text, and for a role that the scope has already.
func addRole(text string, into ipamv1alpha1.Scope) (ok bool) {
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

// scopeWords writes what Scope takes, by the names of the roles.
func scopeWords(scope ipamv1alpha1.Scope) []string {
	words := make([]string, 0, len(scope))
	for _, role := range slices.Sorted(maps.Keys(scope)) {
		ref := scope[role]
		object := ref.Name
		if ref.APIGroup != "" || ref.Kind != kindOfRole(role) {
			object = ref.String()
		}
		words = append(words, role+"="+object)
	}
	return words
}
