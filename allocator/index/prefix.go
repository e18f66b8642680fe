package index

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// uint128 is a row of 128 bits, numbered 1 to 128 from the highest. It is used as an address (an IPv4 address is its
// first 32 bits), and as a set of prefix lengths (length d is bit d). The two uses meet: a prefix of length d differs
// from its buddy in bit d of the address.
type uint128 struct{ hi, lo uint64 }

func (a uint128) and(b uint128) uint128    { return uint128{a.hi & b.hi, a.lo & b.lo} }
func (a uint128) andNot(b uint128) uint128 { return uint128{a.hi &^ b.hi, a.lo &^ b.lo} }
func (a uint128) or(b uint128) uint128     { return uint128{a.hi | b.hi, a.lo | b.lo} }
func (a uint128) isZero() bool             { return a.hi|a.lo == 0 }

// ones has the bits 1 to n: the netmask of a prefix of length n, and the set of
// all lengths up to n.
func ones(n uint8) uint128 {
	if n <= 64 {
		return uint128{hi: ^(^uint64(0) >> n)}
	}
	return uint128{^uint64(0), ^(^uint64(0) >> (n - 64))}
}

// bit has only bit n. There is no bit 0: bit(0) is the empty set.
func bit(n uint8) uint128 {
	if n <= 64 {
		return uint128{hi: 1 << 63 >> (n - 1)} // n = 0: shifted out, the count wraps to 255
	}
	return uint128{lo: 1 << 63 >> (n - 65)}
}

// first returns the lowest number of a bit that is set. a must not be zero.
func (a uint128) first() uint8 {
	if a.hi != 0 {
		return uint8(bits.LeadingZeros64(a.hi)) + 1
	}
	return uint8(bits.LeadingZeros64(a.lo)) + 65
}

// last returns the highest number of a bit that is set. a must not be zero.
func (a uint128) last() uint8 {
	if a.lo != 0 {
		return 128 - uint8(bits.TrailingZeros64(a.lo))
	}
	return 64 - uint8(bits.TrailingZeros64(a.hi))
}

// side says in which half of a prefix of length n the address lies: bit n+1.
func (a uint128) side(n uint8) uint8 {
	if n < 64 {
		return uint8(a.hi >> (63 - n) & 1)
	}
	return uint8(a.lo >> (127 - n) & 1)
}

// common counts the leading bits in which a and b agree.
func common(a, b uint128) uint8 {
	if x := a.hi ^ b.hi; x != 0 {
		return uint8(bits.LeadingZeros64(x))
	}
	return 64 + uint8(bits.LeadingZeros64(a.lo^b.lo))
}

// prefix is a netip.Prefix of a known family in fixed-width integers; no bit is
// set beyond its length.
type prefix struct {
	addr   uint128
	length uint8
}

func (p prefix) contains(q prefix) bool {
	return p.length <= q.length && p.length <= common(p.addr, q.addr)
}

// prefixOf converts a valid p and clears its host bits.
func prefixOf(p netip.Prefix) prefix {
	length := uint8(p.Bits())
	if p.Addr().Is4() {
		b := p.Addr().As4()
		addr := uint128{hi: uint64(binary.BigEndian.Uint32(b[:])) << 32}
		return prefix{addr.and(ones(length)), length}
	}
	b := p.Addr().As16()
	addr := uint128{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
	return prefix{addr.and(ones(length)), length}
}

// netip converts back, given the width of the family's addresses in bits.
func (p prefix) netip(width uint8) netip.Prefix {
	if width == 32 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(p.addr.hi>>32))
		return netip.PrefixFrom(netip.AddrFrom4(b), int(p.length))
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], p.addr.hi)
	binary.BigEndian.PutUint64(b[8:], p.addr.lo)
	return netip.PrefixFrom(netip.AddrFrom16(b), int(p.length))
}
