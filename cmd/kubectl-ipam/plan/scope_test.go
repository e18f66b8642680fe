package plan

import (
	"reflect"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

func TestParseScope(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ipamv1alpha1.ScopeRef{
		"network=vpc-1":                 {Kind: "Network", Name: "vpc-1"},
		"network=Net/vpc-1":             {Kind: "Net", Name: "vpc-1"},
		"network=Net.n.example.com/vpc": {APIGroup: "n.example.com", Kind: "Net", Name: "vpc"},
		"network=a=b":                   {Kind: "Network", Name: "a=b"},
		"network":                       {}, "network=": {}, "=vpc-1": {}, "network=/vpc-1": {}, "network=Net/": {}, "network=a/b/c": {}, "": {},
	} {
		scope := ipamv1alpha1.Scope{}
		if ok := ParseScope(text, scope); ok != (want.Name != "") || ok && scope["network"] != want {
			t.Errorf("ParseScope(%q) = %t, %v; want %v", text, ok, scope, want)
		}
	}
	if scope := (ipamv1alpha1.Scope{"network": {Kind: "Network", Name: "a"}}); ParseScope("network=b", scope) {
		t.Errorf("a role is given twice: %v", scope)
	}
}

// A scope is read from a table as it was written.
func TestScopeText(t *testing.T) {
	t.Parallel()
	for want, scope := range map[string]ipamv1alpha1.Scope{
		"":                           nil,
		"location=ams network=vpc-1": {"network": {Kind: "Network", Name: "vpc-1"}, "location": {Kind: "Location", Name: "ams"}},
		"network=Network.g.example.com/vpc-1 zone=Z/a": {"network": {APIGroup: "g.example.com", Kind: "Network", Name: "vpc-1"}, "zone": {Kind: "Z", Name: "a"}},
	} {
		if got := scopeText(scope); got != want {
			t.Errorf("scopeText(%v) = %q, want %q", scope, got, want)
		}
		found := &problems{}
		read := row{cells: map[string]string{columnScope: want}, read: map[string]bool{}, problems: found}.scope()
		if !reflect.DeepEqual(read, scope) || len(*found) > 0 {
			t.Errorf("%q is read as %v, with %v; want %v", want, read, *found, scope)
		}
	}
}

// Claims of two networks may have one address.
func TestCheck_ClaimsOfTwoNetworksMayHaveOneAddress(t *testing.T) {
	t.Parallel()
	const header = "kind,name,cidr,class,scope\n"
	for text, want := range map[string]int{
		"claim,a,10.0.0.1,vrf,network=x\nclaim,b,10.0.0.1,vrf,network=y\n": 0,
		"claim,a,10.0.0.1,vrf,network=x\nclaim,b,10.0.0.1,vrf,network=x\n": 1,
		"claim,a,10.0.0.1,vrf,\nclaim,b,10.0.0.1,vrf,\n":                   1,
	} {
		p, wrong := ReadCSV([]byte(header+text), Options{})
		if wrong = append(wrong, p.Check()...); len(wrong) != want {
			t.Errorf("%s has the problems %v, want %d", text, wrong, want)
		}
	}
}
