package space

import (
	"cmp"
	"net/netip"
	"slices"

	"go4.org/netipx"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// Free are the free blocks of the pool as far as is known, by address, each as large as can be.
func (s Space) Free() []netip.Prefix {
	var free netipx.IPSetBuilder
	free.AddPrefix(s.Pool)
	for _, block := range slices.Concat(s.Taken, s.Kept) {
		free.RemovePrefix(block)
	}
	set, err := free.IPSet()
	if err != nil {
		return nil // only of ranges that are none
	}
	return set.Prefixes()
}

// Next are the blocks that the next claims of a length get from the pool, at most count, if no
// other claim comes first. They are fewer where the pool has no more room. The cut is that of the
// allocator: at the start of the free block that the strategy chooses.
func (s Space) Next(length, count int, strategy ipamv1alpha1.Strategy) []netip.Prefix {
	if length < s.Pool.Bits() || length > s.Pool.Addr().BitLen() {
		return nil
	}
	var next []netip.Prefix
	for free := s.Free(); len(next) < count; {
		at := choose(free, length, strategy)
		if at < 0 {
			break
		}
		block, rest := cut(free[at], length)
		next = append(next, block)
		free = slices.Replace(free, at, at+1, rest...)
	}
	return next
}

// choose finds the free block to cut a block of this length from; -1 without one. The lowest of
// equals comes first.
func choose(free []netip.Prefix, length int, strategy ipamv1alpha1.Strategy) int {
	best := -1
	for i, block := range free {
		switch {
		case block.Bits() > length:
		case best < 0, better(block, free[best], strategy):
			best = i
		}
	}
	return best
}

// better reports whether a strategy prefers a block to one of a lower address.
func better(block, found netip.Prefix, strategy ipamv1alpha1.Strategy) bool {
	switch strategy {
	case ipamv1alpha1.BestFit:
		return block.Bits() > found.Bits()
	case ipamv1alpha1.LeastUtilized:
		return block.Bits() < found.Bits()
	default:
		return false
	}
}

// cut takes the first block of this length from a free one, and returns the rest by address.
func cut(free netip.Prefix, length int) (block netip.Prefix, rest []netip.Prefix) {
	for free.Bits() < length {
		low, high := cidr.Halves(free)
		free, rest = low, append(rest, high)
	}
	slices.SortFunc(rest, func(a, b netip.Prefix) int { return cmp.Or(a.Addr().Compare(b.Addr()), a.Bits()-b.Bits()) })
	return free, rest
}
