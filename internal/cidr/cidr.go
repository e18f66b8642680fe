// Package cidr computes with prefixes. It imports nothing of this module.
package cidr

import (
	"math/big"
	"net/netip"
)

// Size is the number of addresses in a prefix.
func Size(p netip.Prefix) *big.Int {
	return new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits()))
}

// Narrower is the common part of two prefixes that overlap.
func Narrower(a, b netip.Prefix) netip.Prefix {
	if a.Bits() > b.Bits() {
		return a
	}
	return b
}

// Halves are the two buddies that make up a prefix. It panics for a single address, which has none.
func Halves(p netip.Prefix) (low, high netip.Prefix) {
	bits := p.Bits()
	bytes := p.Masked().Addr().AsSlice()
	bytes[bits/8] |= 1 << (7 - bits%8)
	upper, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(p.Masked().Addr(), bits+1), netip.PrefixFrom(upper, bits+1)
}

// Edges returns the prefixes that make up the leading and the trailing blocks of a prefix, from its two ends inwards.
// unit is the prefix length of a block; 0, or a length beyond that of the family, means single addresses. If there
// are fewer blocks than asked for, Edges returns the whole prefix.
func Edges(p netip.Prefix, unit int, leading, trailing int32) []netip.Prefix {
	if bits := p.Addr().BitLen(); unit == 0 || unit > bits {
		unit = bits
	}
	fromEnd := func(p netip.Prefix) (near, far netip.Prefix) { far, near = Halves(p); return near, far }
	return append(edge(p.Masked(), unit, int64(leading), Halves), edge(p.Masked(), unit, int64(trailing), fromEnd)...)
}

// edge returns the prefixes that make up n blocks of a prefix, counted from the end that lies in its near half.
func edge(p netip.Prefix, unit int, n int64, halves func(netip.Prefix) (near, far netip.Prefix)) []netip.Prefix {
	below := max(unit-p.Bits(), 0)
	switch all := int64(1) << min(below, 62); { // more than any n
	case n <= 0:
		return nil
	case n >= all:
		return []netip.Prefix{p}
	default:
		near, far := halves(p)
		return append(edge(near, unit, min(n, all/2), halves), edge(far, unit, n-all/2, halves)...)
	}
}
