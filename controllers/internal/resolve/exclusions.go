package resolve

import (
	"fmt"
	"math/big"
	"net/netip"

	"go4.org/netipx"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Excluded lists the prefixes that a pool never hands out: its reservations at the two
// edges, its excluded CIDRs, and those that it withholds for its gateway, merged into the fewest prefixes.
func Excluded(cidr netip.Prefix, spec ipamv1alpha1.IPPoolSpec) ([]netip.Prefix, error) {
	var set netipx.IPSetBuilder
	for _, text := range spec.ExcludedCIDRs {
		prefix, err := netip.ParsePrefix(string(text))
		if err != nil {
			return nil, fmt.Errorf("spec.excludedCIDRs: %w", err)
		}
		set.AddPrefix(prefix)
	}
	for _, w := range spec.Withheld(cidr) {
		set.Add(w.Address)
	}
	if r := spec.Reservations; r != nil {
		reserve(&set, cidr, *r)
	}
	var pool netipx.IPSetBuilder
	pool.AddPrefix(cidr)
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

// reserved lists the prefixes that a pool with these reservations alone never hands out.
func reserved(cidr netip.Prefix, r ipamv1alpha1.PoolReservations) []netip.Prefix {
	kept, _ := Excluded(cidr, ipamv1alpha1.IPPoolSpec{Reservations: &r}) // there is no text that could not be read
	return kept
}

// reserve adds the blocks at the edges. The unit is one address unless it is given;
// that of a child may be longer than its family has, which is not known when the
// child is written, and means an address, too.
func reserve(set *netipx.IPSetBuilder, cidr netip.Prefix, r ipamv1alpha1.PoolReservations) {
	bits := cidr.Addr().BitLen()
	unit := bits
	if r.UnitPrefixLength > 0 {
		unit = min(bits, int(r.UnitPrefixLength))
	}
	size := new(big.Int).Lsh(big.NewInt(1), uint(bits-unit)) //nolint:gosec // it is not negative
	edges := netipx.RangeOfPrefix(cidr)
	first, last := number(edges.From()), number(edges.To())
	if r.Leading > 0 {
		end := new(big.Int).Mul(size, big.NewInt(int64(r.Leading)))
		end.Add(end, first).Sub(end, big.NewInt(1))
		set.AddRange(netipx.IPRangeFrom(edges.From(), address(smaller(end, last), bits)))
	}
	if r.Trailing > 0 {
		start := new(big.Int).Mul(size, big.NewInt(int64(r.Trailing)))
		start.Sub(last, start).Add(start, big.NewInt(1))
		set.AddRange(netipx.IPRangeFrom(address(larger(start, first), bits), edges.To()))
	}
}

func number(a netip.Addr) *big.Int {
	return new(big.Int).SetBytes(a.AsSlice())
}

func address(n *big.Int, bits int) netip.Addr {
	a, _ := netip.AddrFromSlice(n.FillBytes(make([]byte, bits/8)))
	return a
}

func smaller(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

func larger(a, b *big.Int) *big.Int {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}
