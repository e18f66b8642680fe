package field

import (
	"reflect"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// The object of a role has a kind and a group, or those that the role says.
func TestScope_NamesTheObjectOfARole(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ipamv1alpha1.ScopeRef{
		"network=vpc-1":                 {Kind: "Network", Name: "vpc-1"},
		"network=Net/vpc-1":             {Kind: "Net", Name: "vpc-1"},
		"network=Net.n.example.com/vpc": {APIGroup: "n.example.com", Kind: "Net", Name: "vpc"},
		"network=a=b":                   {Kind: "Network", Name: "a=b"},
		"network":                       {}, "network=": {}, "=vpc-1": {}, "network=/vpc-1": {}, "network=Net/": {}, "network=a/b/c": {}, "": {},
	} {
		scope := ipamv1alpha1.Scope{}
		if ok := addRole(text, scope); ok != (want.Name != "") || ok && scope["network"] != want {
			t.Errorf("addRole(%q) = %t, %v; want %v", text, ok, scope, want)
		}
	}
	if scope := (ipamv1alpha1.Scope{"network": {Kind: "Network", Name: "a"}}); addRole("network=b", scope) {
		t.Errorf("a role is given twice: %v", scope)
	}
}

// A scope is read from a cell as it was written.
func TestScope_IsReadAsWritten(t *testing.T) {
	t.Parallel()
	for want, scope := range map[string]ipamv1alpha1.Scope{
		"":                           nil,
		"location=ams network=vpc-1": {"network": {Kind: "Network", Name: "vpc-1"}, "location": {Kind: "Location", Name: "ams"}},
		"network=Network.g.example.com/vpc-1 zone=Z/a": {"network": {APIGroup: "g.example.com", Kind: "Network", Name: "vpc-1"}, "zone": {Kind: "Z", Name: "a"}},
	} {
		if got := (Field{Value: Scope(&scope)}).Cell(); got != want {
			t.Errorf("the scope %v is written as %q, want %q", scope, got, want)
		}
		var read ipamv1alpha1.Scope
		f := Field{Value: Scope(&read)}
		for _, word := range f.Words(want) {
			if err := f.Value.Set(word); err != nil {
				t.Errorf("%q is %v", word, err)
			}
		}
		if !reflect.DeepEqual(read, scope) {
			t.Errorf("%q is read as %v; want %v", want, read, scope)
		}
	}
}
