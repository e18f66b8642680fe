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
