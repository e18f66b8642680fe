package space

import (
	"encoding/binary"
	"iter"
	"net/netip"
)

// prefixes maps prefixes to values. It saves memory, because there are millions of prefixes: the key of an IPv4 prefix,
// or of an IPv6 /64, takes eight bytes, and any other key takes 32. The zero value is empty.
type prefixes[V any] struct {
	four      map[uint64]V // the address, then the length in the lowest byte
	sixtyFour map[uint64]V // the first half of the address
	others    map[netip.Prefix]V
}

// len returns how many prefixes there are.
func (m *prefixes[V]) len() int { return len(m.four) + len(m.sixtyFour) + len(m.others) }

// get returns the value of a prefix; ok is false if it has none.
func (m *prefixes[V]) get(p netip.Prefix) (v V, ok bool) {
	switch {
	case p.Addr().Is4():
		v, ok = m.four[keyOfFour(p)]
	case p.Bits() == 64 && plain(p):
		v, ok = m.sixtyFour[keyOfSixtyFour(p)]
	default:
		v, ok = m.others[p]
	}
	return v, ok
}

// put sets the value of a prefix.
func (m *prefixes[V]) put(p netip.Prefix, v V) {
	switch {
	case p.Addr().Is4():
		put(&m.four, keyOfFour(p), v)
	case p.Bits() == 64 && plain(p):
		put(&m.sixtyFour, keyOfSixtyFour(p), v)
	default:
		put(&m.others, p, v)
	}
}

// remove removes the value of a prefix, if it has one.
func (m *prefixes[V]) remove(p netip.Prefix) {
	switch {
	case p.Addr().Is4():
		delete(m.four, keyOfFour(p))
	case p.Bits() == 64 && plain(p):
		delete(m.sixtyFour, keyOfSixtyFour(p))
	default:
		delete(m.others, p)
	}
}

// all yields the prefixes and their values, in no order. The map may be changed meanwhile.
func (m *prefixes[V]) all() iter.Seq2[netip.Prefix, V] {
	return func(yield func(netip.Prefix, V) bool) {
		for k, v := range m.four {
			if !yield(prefixOfFour(k), v) {
				return
			}
		}
		for k, v := range m.sixtyFour {
			if !yield(prefixOfSixtyFour(k), v) {
				return
			}
		}
		for p, v := range m.others {
			if !yield(p, v) {
				return
			}
		}
	}
}

func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}

func keyOfFour(p netip.Prefix) uint64 {
	addr := p.Addr().As4()
	return uint64(binary.BigEndian.Uint32(addr[:]))<<8 | uint64(p.Bits())
}

func prefixOfFour(k uint64) netip.Prefix {
	var addr [4]byte
	binary.BigEndian.PutUint32(addr[:], uint32(k>>8)) //nolint:gosec // see keyOfFour
	return netip.PrefixFrom(netip.AddrFrom4(addr), int(k&0xff))
}

func keyOfSixtyFour(p netip.Prefix) uint64 {
	addr := p.Addr().As16()
	return binary.BigEndian.Uint64(addr[:8])
}

func prefixOfSixtyFour(k uint64) netip.Prefix {
	var addr [16]byte
	binary.BigEndian.PutUint64(addr[:8], k)
	return netip.PrefixFrom(netip.AddrFrom16(addr), 64)
}

// plain reports whether the second half of a prefix's IPv6 address is zero, so that its first half and its length say
// all of it. A prefix has no zone, and the prefix of a block has no host bits. So a prefix with host bits is not taken
// for the block.
func plain(p netip.Prefix) bool {
	addr := p.Addr().As16()
	return binary.BigEndian.Uint64(addr[8:]) == 0
}
