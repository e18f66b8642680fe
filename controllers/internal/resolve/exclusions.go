package resolve

import (
	"fmt"
	"net/netip"

	"go4.org/netipx"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// Excluded lists the prefixes that a pool never hands out: its reservations at the two edges, its excluded CIDRs, and
// the addresses that it withholds for its gateway. They are merged into the fewest prefixes.
func Excluded(window netip.Prefix, spec ipamv1alpha1.IPPoolSpec) ([]netip.Prefix, error) {
	var set netipx.IPSetBuilder
	for _, text := range spec.ExcludedCIDRs {
		prefix, err := netip.ParsePrefix(string(text))
		if err != nil {
			return nil, fmt.Errorf("spec.excludedCIDRs: %w", err)
		}
		set.AddPrefix(prefix)
	}
	for _, w := range spec.Withheld(window) {
		set.Add(w.Address)
	}
	if r := spec.Reservations; r != nil {
		for _, edge := range cidr.Edges(window, int(r.UnitPrefixLength), r.Leading, r.Trailing) {
			set.AddPrefix(edge)
		}
	}
	var pool netipx.IPSetBuilder
	pool.AddPrefix(window)
	within, err := pool.IPSet()
	if err != nil {
		return nil, err
	}
	set.Intersect(within)
	merged, err := set.IPSet()
	if err != nil {
		return nil, err
	}
	return merged.Prefixes(), nil
}

// reserved lists the prefixes that a pool with these reservations, and no exclusions, never hands out.
func reserved(window netip.Prefix, r ipamv1alpha1.PoolReservations) []netip.Prefix {
	kept, _ := Excluded(window, ipamv1alpha1.IPPoolSpec{Reservations: &r}) // there is no text that could not be read
	return kept
}
