package golden

import (
	"net/netip"
	"slices"
)

func insert(sorted []netip.Prefix, p netip.Prefix) []netip.Prefix {
	sorted = append(sorted, p)
	slices.SortFunc(sorted, netip.Prefix.Compare)
	return sorted
}

func remove(sorted []netip.Prefix, p netip.Prefix) ([]netip.Prefix, bool) {
	i := slices.Index(sorted, p)
	if i < 0 || !p.IsValid() {
		return sorted, false
	}
	return slices.Delete(sorted, i, i+1), true
}

// halves cuts p, which is not a single address, in two.
func halves(p netip.Prefix) (low, high netip.Prefix) {
	length := p.Bits() + 1
	b := p.Addr().AsSlice()
	b[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	addr, _ := netip.AddrFromSlice(b)
	return netip.PrefixFrom(p.Addr(), length), netip.PrefixFrom(addr, length)
}
