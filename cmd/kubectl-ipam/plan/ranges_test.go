package plan_test

import (
	"fmt"
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/plan"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Networks that claims hold are in the plan, with all claims inside. A network that no claim holds is left out with its
// claims, because it could come back elsewhere. So is a held network inside such a network.
func TestOf_HasTheNetworksThatClaimsHold(t *testing.T) {
	t.Parallel()
	made := func(name, above, cidr string) ipamv1alpha1.IPPool {
		pool := gen.Pool(name, gen.ChildOf(above, 24))
		pool.Spec.ParentPoolRef.ProjectRef = map[bool]*ipamv1alpha1.ProjectRef{true: {Name: "root:ipam"}}[above == "vpcs"]
		pool.Spec.ClassRef, pool.Status.AllocatedCIDR = &ipamv1alpha1.ClassRef{Name: "vpc"}, cidr
		return *pool
	}
	red, blue := gen.Within("network", "red"), gen.Within("network", "blue")
	pools := []ipamv1alpha1.IPPool{
		made("red", "vpcs", "10.112.0.0/16"), made("red-app", "red", "10.112.0.0/24"), made("red-db", "red", "10.112.1.0/24"),
		made("blue", "vpcs", "10.112.0.0/16"), made("blue-app", "blue", "10.112.0.0/24"),
	}
	claims := []ipamv1alpha1.IPClaim{
		bound("hold-red", "10.112.0.0/16", "red", gen.OfClass("vpc"), red, gen.ForRange()), bound("hold-red-app", "10.112.0.0/24", "red-app", gen.OfClass("sub"), red, gen.ForRange()),
		bound("web", "10.112.0.1/32", "red-app", gen.OfClass("host"), red), bound("db", "10.112.1.1/32", "red-db", gen.OfClass("host"), red),
		bound("hold-blue-app", "10.112.0.0/24", "blue-app", gen.OfClass("sub"), blue, gen.ForRange()), bound("blue-web", "10.112.0.1/32", "blue-app", gen.OfClass("host"), blue),
	}
	p, left := plan.Of(pools, claims)
	var got []string
	for _, c := range p.Claims {
		got = append(got, fmt.Sprint(c.Name, " ", c.Spec.Target, " ", c.Spec.Address))
	}
	if want := "hold-red ScopeRange 10.112.0.0/16, hold-red-app ScopeRange 10.112.0.0/24, web  10.112.0.1"; strings.Join(got, ", ") != want || len(p.Pools) > 0 {
		t.Errorf("the plan has the claims %s, and %d pools; want %s", strings.Join(got, ", "), len(p.Pools), want)
	}
	all := strings.Join(left, "\n")
	for _, want := range []string{"pool red-db: ", "pool blue: ", "pool blue-app: ", "claim default/db: its pool red-db", "claim default/hold-blue-app: its pool blue-app", "claim default/blue-web: "} {
		if !strings.Contains(all, want) || len(left) != 6 {
			t.Errorf("left out are %q; want %q among six", left, want)
		}
	}
}
