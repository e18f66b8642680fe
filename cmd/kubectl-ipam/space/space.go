// Package space computes what is known of the addresses of a pool: which are taken, which are never
// handed out, and which are free. All functions are pure.
package space

import (
	"cmp"
	"math/big"
	"net/netip"
	"slices"
	"time"

	"go4.org/netipx"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/cidr"
	"github.com/kcp-ipam/ipam/internal/plural"
)

// Space is what is known of the blocks of a pool.
type Space struct {
	// Pool is the block of the pool itself.
	Pool netip.Prefix
	// Taken are the blocks that the caller may see, Kept those that are never handed out.
	Taken, Kept []netip.Prefix
}

// Of returns the space of a pool with the blocks that the caller may see.
func Of(pool *ipamv1alpha1.IPPool, held []Holding) (Space, error) {
	block, err := netip.ParsePrefix(pool.Status.AllocatedCIDR)
	if err != nil {
		return Space{}, err
	}
	return Space{Pool: block, Taken: Within(block, held), Kept: KeptBack(block, pool.Spec)}, nil
}

// Within returns the blocks of a pool among those that are held. Others are from a former pool of the
// same name.
func Within(pool netip.Prefix, held []Holding) []netip.Prefix {
	var within []netip.Prefix
	for _, h := range held {
		if pool.Overlaps(h.Block) {
			within = append(within, h.Block)
		}
	}
	return within
}

// Known returns the number of addresses that are taken or kept back, as far as is seen. What lies in
// several blocks is counted once.
func (s Space) Known() *big.Int {
	counts := map[int]int64{}
	for _, block := range Outermost(slices.Concat(s.Taken, s.Kept)) {
		counts[block.Bits()]++
	}
	total := new(big.Int)
	for bits, count := range counts {
		size := cidr.Size(netip.PrefixFrom(s.Pool.Addr(), bits))
		total.Add(total, size.Mul(size, big.NewInt(count)))
	}
	return total
}

// Outermost returns the blocks that are in no other one, by address: blocks nest, or have nothing in
// common.
func Outermost(blocks []netip.Prefix) []netip.Prefix {
	var outermost []netip.Prefix
	for _, block := range slices.SortedFunc(slices.Values(blocks), netip.Prefix.Compare) {
		if last := len(outermost) - 1; last < 0 || !outermost[last].Contains(block.Addr()) {
			outermost = append(outermost, block)
		}
	}
	return outermost
}

// Unseen returns the number of addresses that others hold of a pool, by its figures. It is
// below zero if its figures do not count the latest blocks yet.
func (s Space) Unseen(capacity *ipamv1alpha1.PoolCapacity) *big.Int {
	taken, ok := new(big.Int).SetString(capacity.Allocated, 10)
	if !ok {
		return new(big.Int)
	}
	taken.Sub(taken, Cooling(capacity)) // it is counted by itself, and has no holder
	return taken.Sub(taken, s.Known())
}

// KeptBack returns the blocks of a pool that are never handed out.
func KeptBack(pool netip.Prefix, spec ipamv1alpha1.IPPoolSpec) []netip.Prefix {
	kept := append(Excluded(spec), Edges(pool, spec)...)
	for _, w := range spec.Withheld(pool) {
		kept = append(kept, netip.PrefixFrom(w.Address, w.Address.BitLen()))
	}
	return kept
}

// Excluded returns the blocks that a pool excludes by name.
func Excluded(spec ipamv1alpha1.IPPoolSpec) []netip.Prefix {
	var excluded []netip.Prefix
	for _, text := range spec.ExcludedCIDRs {
		if prefix, err := netip.ParsePrefix(string(text)); err == nil {
			excluded = append(excluded, prefix)
		}
	}
	return excluded
}

// Edges returns the blocks that a pool reserves at its two edges.
func Edges(pool netip.Prefix, spec ipamv1alpha1.IPPoolSpec) []netip.Prefix {
	if spec.Reservations == nil {
		return nil
	}
	return cidr.Edges(pool, int(spec.Reservations.UnitPrefixLength), spec.Reservations.Leading, spec.Reservations.Trailing)
}

// Lengths returns the shortest and the longest prefix length of the blocks that a pool of a CIDR gives. There is none if
// the first is the longer one.
func Lengths(pool netip.Prefix, spec ipamv1alpha1.IPPoolSpec) (least, most int32) {
	bits, all := int32(pool.Bits()), int32(pool.Addr().BitLen()) //nolint:gosec // at most 128
	return max(spec.Allocation.MinPrefixLength, bits), min(cmp.Or(spec.Allocation.MaxPrefixLength, all), all)
}

// Cooling returns how many addresses of a pool cool after their release.
func Cooling(capacity *ipamv1alpha1.PoolCapacity) *big.Int {
	cooling := new(big.Int)
	if capacity != nil && capacity.Cooling != "" {
		if n, ok := new(big.Int).SetString(capacity.Cooling, 10); ok {
			cooling = n
		}
	}
	return cooling
}

// CoolsUntil says how much of a pool cools, and when the next of it is free.
func CoolsUntil(pool *ipamv1alpha1.IPPool) string {
	said := plural.Of(pool.Status.Capacity.Cooling, "address of the pool cools after its release", "addresses of the pool cool after their release")
	if next := pool.Status.NextRelease; next != nil {
		said += ", the next of them until " + next.UTC().Format(time.RFC3339)
	}
	return said
}

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
