package space

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// prefixes has the same values as a plain map, for prefixes of all lengths and both families.
func TestPrefixes_AgreeWithAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var m prefixes[int]
	plain := map[netip.Prefix]int{}
	for i := range 200_000 {
		p := somePrefix(random)
		got, ok := m.get(p)
		if want, has := plain[p]; got != want || ok != has {
			t.Fatalf("step %d: get(%v) = %v, %v; want %v, %v", i, p, got, ok, want, has)
		}
		if random.IntN(3) == 0 {
			m.remove(p)
			delete(plain, p)
		} else {
			m.put(p, i)
			plain[p] = i
		}
		if m.len() != len(plain) {
			t.Fatalf("step %d: len() = %d after %v, want %d", i, m.len(), p, len(plain))
		}
		if i%1000 == 0 {
			if all := maps.Collect(m.all()); !maps.Equal(all, plain) {
				t.Fatalf("step %d: all() = %v, want %v", i, all, plain)
			}
		}
	}
}

// somePrefix returns one of a few hundred prefixes that differ little, some of them with host bits.
func somePrefix(random *rand.Rand) netip.Prefix {
	last := byte(random.IntN(4))
	addr := netip.AddrFrom4([4]byte{10, last, 0, byte(random.IntN(2))})
	bits := 28 + random.IntN(5)
	switch random.IntN(3) {
	case 0:
		addr, bits = netip.AddrFrom16([16]byte{0x20, 1, 7: last, 15: byte(random.IntN(2))}), 62+random.IntN(5)
	case 1: // an IPv4-mapped IPv6 address: it differs from the IPv4 address
		addr, bits = netip.AddrFrom16(addr.As16()), []int{28, 32, 64, 124, 128}[random.IntN(5)]
	}
	return netip.PrefixFrom(addr, bits)
}
