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
