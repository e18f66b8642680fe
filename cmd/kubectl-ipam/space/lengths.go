package space

import (
	"cmp"
	"net/netip"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Lengths returns the shortest and the longest prefix length of the blocks that a pool of a CIDR gives. There is none if
// the first is the longer one.
func Lengths(pool netip.Prefix, spec ipamv1alpha1.IPPoolSpec) (least, most int32) {
	bits, all := int32(pool.Bits()), int32(pool.Addr().BitLen()) //nolint:gosec // at most 128
	return max(spec.Allocation.MinPrefixLength, bits), min(cmp.Or(spec.Allocation.MaxPrefixLength, all), all)
}
