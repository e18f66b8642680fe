package output

import (
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// Addresses and numbers are sorted by value, and what has no such field comes first.
func TestSortList(t *testing.T) {
	for path, want := range map[string]string{
		".status.allocatedCIDR": "new b a c",
		"{.spec.prefixLength}":  "new c b a",
		"metadata.name":         "a b c new",
		".status.nothing":       "a new c b",
	} {
		list := &ipamv1alpha1.IPClaimList{Items: []ipamv1alpha1.IPClaim{
			*stage.Bound(gen.Claim("a", gen.Length(30)), "10.64.0.16/30", stage.OfPlatform("p")),
			*gen.Claim("new"),
			*stage.Bound(gen.Claim("c", gen.Length(9)), "100.0.0.0/9", stage.OfPlatform("p")),
			*stage.Bound(gen.Claim("b", gen.Length(28)), "10.9.0.0/28", stage.OfPlatform("p")),
		}}
		if err := Sort(list, path); err != nil {
			t.Fatalf("Sort: %v", err)
		}
		var names []string
		for _, claim := range list.Items {
			names = append(names, claim.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("sorted by %s: %s, want %s", path, got, want)
		}
	}
	if err := Sort(&ipamv1alpha1.IPClaimList{}, ".status[."); exit.CodeOf(err) != exit.Usage {
		t.Errorf("sorted by a field that is none: %v, want wrong usage", err)
	}
}

// Figures of IPv6 have more digits than a float64, or 64 bits.
func TestSortList_IPv6(t *testing.T) {
	const more, less = "79228162514264337593543950335", "79228162514264337593543950080" // 2^96-1, 2^96-256
	list := &ipamv1alpha1.IPPoolList{}
	for _, available := range []string{more, less} {
		pool := gen.Pool("p" + available[len(available)-3:])
		pool.Status.Capacity = &ipamv1alpha1.PoolCapacity{Available: available}
		list.Items = append(list.Items, *pool)
	}
	if err := Sort(list, ".status.capacity.available"); err != nil || list.Items[0].Status.Capacity.Available != less {
		t.Errorf("%s comes first (%v); want %s", list.Items[0].Status.Capacity.Available, err, less)
	}
}
