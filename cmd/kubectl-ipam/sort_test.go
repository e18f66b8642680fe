package main

import (
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
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
			*bound(gen.Claim("a", gen.Length(30)), "10.64.0.16/30", ofPlatform("p")),
			*gen.Claim("new"),
			*bound(gen.Claim("c", gen.Length(9)), "100.0.0.0/9", ofPlatform("p")),
			*bound(gen.Claim("b", gen.Length(28)), "10.9.0.0/28", ofPlatform("p")),
		}}
		if err := sortList(list, path); err != nil {
			t.Fatal(err)
		}
		names := collect(list.Items, func(c *ipamv1alpha1.IPClaim) string { return c.Name })
		if got := strings.Join(names, " "); got != want {
			t.Errorf("sorted by %s: %s, want %s", path, got, want)
		}
	}
	if err := sortList(&ipamv1alpha1.IPClaimList{}, ".status[."); exitCode(err) != exitUsage {
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
	if err := sortList(list, ".status.capacity.available"); err != nil || list.Items[0].Status.Capacity.Available != less {
		t.Errorf("%s comes first (%v); want %s", list.Items[0].Status.Capacity.Available, err, less)
	}
}
