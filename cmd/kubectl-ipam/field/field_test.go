package field

import (
	"reflect"
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// A known word is accepted in upper and lower case. Any other text is refused.
func FuzzWord(f *testing.F) {
	f.Add("ipv4")
	f.Add("IPV6")
	f.Add("")
	f.Add("ıpv4")
	f.Fuzz(func(t *testing.T, word string) {
		var got ipamv1alpha1.IPFamily
		err := Word(&got, ipamv1alpha1.IPv4, ipamv1alpha1.IPv6).Set(word)
		known := word != "" && strings.EqualFold(word, string(got))
		if (err == nil) != known {
			t.Errorf("%q is %q, %v", word, got, err)
		}
	})
}

// An owner is read as it is written. Its UID is kept, whichever of the two flags comes first.
func TestOwner_IsReadAsWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ipamv1alpha1.OwnerRef{
		"Service/default/web":             {Kind: "Service", Namespace: "default", Name: "web", UID: "u"},
		"Node/n-1":                        {Kind: "Node", Name: "n-1", UID: "u"},
		"Machine.example.com/default/m-1": {APIGroup: "example.com", Kind: "Machine", Namespace: "default", Name: "m-1", UID: "u"},
	} {
		for first, second := range map[string]string{"owner": "owner-uid", "owner-uid": "owner"} {
			claim := &ipamv1alpha1.IPClaim{}
			for _, name := range []string{first, second} {
				set(t, claim, name, map[string]string{"owner": text, "owner-uid": "u"}[name])
			}
			if got := claim.Spec.OwnerRef; got == nil || *got != want {
				t.Errorf("%q after %s is %+v; want %+v", text, first, got, want)
			}
			if got := Owner(&claim.Spec.OwnerRef).String(); got != text {
				t.Errorf("the owner is written as %q; want %q", got, text)
			}
		}
	}
	for _, text := range []string{"web", "Service/", "/web", "Service/a/b/c", "Service//web", ""} {
		var got *ipamv1alpha1.OwnerRef
		if err := Owner(&got).Set(text); err == nil || got != nil {
			t.Errorf("%q is read as %+v; want an error", text, got)
		}
	}
}

// set sets a field of a claim.
func set(t *testing.T, claim *ipamv1alpha1.IPClaim, name, text string) {
	t.Helper()
	for _, f := range OfClaim(claim) {
		if f.Name != name {
			continue
		}
		if err := f.Value.Set(text); err != nil {
			t.Errorf("%s: %q is %v", name, text, err)
		}
	}
}

// The object of a role has the kind that the text gives, or else a kind named after the role.
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

// A scope that was written into a cell is read from it unchanged.
func TestScope_IsReadAsWritten(t *testing.T) {
	t.Parallel()
	var flag ipamv1alpha1.Scope
	if err := Scope(&flag).Set("network=red,subnet=web"); err != nil || len(flag) != 2 || flag["network"].Name != "red" || flag["subnet"].Name != "web" {
		t.Errorf("network=red,subnet=web is read as %v, %v; want two roles", flag, err)
	}
	if err := Scope(&flag).Set("zone=a,network=blue"); err == nil || len(flag) != 2 {
		t.Errorf("a text that is refused leaves %v, %v; want an error, and no change", flag, err)
	}
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
