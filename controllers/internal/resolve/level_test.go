package resolve

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

func TestDerivedName_NamesClassWorkspaceAndScope(t *testing.T) {
	t.Parallel()
	scope := func(network, location string) ipamv1alpha1.Scope {
		return ipamv1alpha1.Scope{"network": {Kind: "Network", Name: network}, "location": {Kind: "Location", Name: location}}
	}
	const digest = "0123456789abcdef"
	for _, tt := range []struct {
		class, path string
		scope       ipamv1alpha1.Scope
		want        string
	}{
		{"vpc", "root:acme:web", scope("vpc-1", "ams"), "vpc-web-ams-vpc-1-01234567"},
		{"vpc", "", scope("vpc-1", "ams"), "vpc-ams-vpc-1-01234567"},
		{"vpc", "root", nil, "vpc-root-01234567"},
		{"vpc.v6", "", scope("Größe", "-A_b.-"), "vpc-v6-a-b-gr--e-01234567"},
		{"vpc", "", scope("---", "…"), "vpc-01234567"},
		{strings.Repeat("c", 250), "", scope("a", "b"), strings.Repeat("c", 244) + "-01234567"},
		{strings.Repeat("c", 243), "", scope("a", "b"), strings.Repeat("c", 243) + "-01234567"},
	} {
		if got := derivedName(tt.class, tt.path, tt.scope, digest); got != tt.want {
			t.Errorf("derivedName(%s, %s, %v) = %s, want %s", tt.class, tt.path, tt.scope, got, tt.want)
		}
	}
}

// Whatever the objects are called, the name is a valid name of a pool. Two scopes whose names look alike have different
// digests.
func FuzzDerivedName(f *testing.F) {
	f.Add("vpc", "root:acme:web", "a-b", "c", "a", "b-c")
	f.Add("vpc", "", "", "", "\x00", "…")
	f.Add("c.d", "root", strings.Repeat("n", 253), strings.Repeat("l", 253), "n", "")
	f.Fuzz(func(t *testing.T, class, path, network, location, otherNetwork, otherLocation string) {
		if len(validation.IsDNS1123Subdomain(class)) > 0 {
			return
		}
		level := func(network, location string) (ledger.PoolID, string) {
			scope := ipamv1alpha1.Scope{"network": {Kind: "Network", Name: network}, "location": {Kind: "Location", Name: location}}
			id := ledger.DerivedID(class, ledger.ClusterName(path), LedgerScope(scope))
			return id, derivedName(class, path, scope, ledger.Digest(id))
		}
		id, name := level(network, location)
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("the name %q of (%q, %q, %q, %q) is no name: %v", name, class, path, network, location, problems)
		}
		other, _ := level(otherNetwork, otherLocation)
		if same := network == otherNetwork && location == otherLocation; (id == other) != same {
			t.Errorf("(%q, %q) and (%q, %q) have the IDs %s and %s", network, location, otherNetwork, otherLocation, id, other)
		}
	})
}
