// Package space computes which addresses of a pool are taken, which are never handed out, and which are free, as far as
// the caller sees. All functions are pure.
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

// Space has the known blocks of a pool.
type Space struct {
	// Pool is the block of the pool itself.
	Pool netip.Prefix
	// Taken are the taken blocks that the caller sees, and Kept are the blocks that are never handed out.
	Taken, Kept []netip.Prefix
}

// Pool is a pool with those of its blocks that the caller sees.
type Pool struct {
	Name string
	// Workspace is the workspace of the pool; empty for the current one.
	Workspace string
	// Object is the pool itself; nil if the caller sees only own blocks of it.
	Object *ipamv1alpha1.IPPool
	// Held are the visible blocks, by address.
	Held []Holding
}

// Title names the pool. It adds the workspace if that is not the current one.
func (p *Pool) Title() string { return In(p.Name, p.Workspace) }

// Space returns the known blocks of the pool. If the caller cannot see the pool, or it has no block, it returns the
// zero Space. It leaves out holdings outside the pool: they are from a former pool of the same name.
func (p *Pool) Space() Space {
	if p.Object == nil {
		return Space{}
	}
	block, err := netip.ParsePrefix(p.Object.Status.AllocatedCIDR)
	if err != nil {
		return Space{}
	}
	known := Space{Pool: block, Kept: KeptBack(block, p.Object.Spec)}
	for _, h := range p.Held {
		if block.Overlaps(h.Block) {
			known.Taken = append(known.Taken, h.Block)
		}
	}
	return known
}

// Within returns the pool as a claim of the current workspace with this scope sees it: with the blocks of the claim's
// address space, and with figures that count these. The status of the pool has the figures of the fullest address space
// instead. In a pool without address spaces, no block has a scope.
func (p *Pool) Within(scope ipamv1alpha1.Scope) *Pool {
	return p.Among(func(h Holding) bool { return h.Workspace == "" && h.meets(scope) })
}

// Among returns the pool with only the blocks for which has returns true, and with figures that count these. They
// should be the blocks of one address space.
func (p *Pool) Among(has func(Holding) bool) *Pool {
	own := &Pool{Name: p.Name, Workspace: p.Workspace, Object: p.Object.DeepCopy()}
	for _, h := range p.Held {
		if has(h) {
			own.Held = append(own.Held, h)
		}
	}
	shown, capacity := own.Space(), own.Object.Status.Capacity
	if capacity == nil || !shown.Pool.IsValid() {
		return own
	}
	taken := shown.Known()
	taken.Add(taken, Cooling(capacity))
	capacity.Allocated, capacity.Available = taken.String(), new(big.Int).Sub(cidr.Size(shown.Pool), taken).String()
	own.Object.Status.UtilizationPercent = new(shareOf(taken, cidr.Size(shown.Pool)))
	own.Object.Status.LargestFreePrefix = nil
	if free := shown.Free(); len(free) > 0 {
		largest := slices.MinFunc(free, func(a, b netip.Prefix) int { return a.Bits() - b.Bits() })
		own.Object.Status.LargestFreePrefix = new(int32(largest.Bits())) //nolint:gosec // at most 128
	}
	return own
}

// shareOf returns part as a share of whole, in percent.
func shareOf(part, whole *big.Int) float64 {
	share, _ := new(big.Rat).SetFrac(part, whole).Float64()
	return share * 100
}

// Known returns how many addresses are known to be taken or kept back. It counts each address once, even if it lies in
// several blocks.
func (s Space) Known() *big.Int {
	total := new(big.Int)
	for _, block := range s.covered().Prefixes() {
		total.Add(total, cidr.Size(block))
	}
	return total
}

// covered returns the addresses that are known to be taken or kept back.
func (s Space) covered() *netipx.IPSet {
	var covered netipx.IPSetBuilder
	for _, block := range slices.Concat(s.Taken, s.Kept) {
		covered.AddPrefix(block)
	}
	set, _ := covered.IPSet() // it fails only for invalid ranges
	return set
}

// Shown reports whether the caller can see the pool itself with its figures, and the pool has a block.
func (p *Pool) Shown() bool {
	return p.Object != nil && p.Object.Status.Capacity != nil && p.Object.Status.AllocatedCIDR != ""
}

// Others returns how many addresses others hold whose blocks the caller does not see. It is zero while the figures do
// not count the latest blocks yet. It is nil if the caller does not see the pool.
func (p *Pool) Others() *big.Int {
	if !p.Shown() {
		return nil
	}
	others := p.Space().Unseen(p.Object.Status.Capacity)
	if others.Sign() < 0 {
		others.SetInt64(0)
	}
	return others
}

// OthersHold says how many addresses of the pool are held by others and not shown to the caller; empty if there are
// none, or if the number is not known.
func (p *Pool) OthersHold() string {
	others := p.Others()
	if others == nil || others.Sign() == 0 {
		return ""
	}
	held := plural.Of(others.String(), "address of the pool, which is", "addresses of the pool, which are")
	return "others hold " + held + " not shown to you"
}

// Unseen returns how many addresses others hold, by the figures of the pool, beyond the known blocks. It is below zero
// while the figures do not count the latest blocks yet.
func (s Space) Unseen(capacity *ipamv1alpha1.PoolCapacity) *big.Int {
	taken, ok := new(big.Int).SetString(capacity.Allocated, 10)
	if !ok {
		return new(big.Int)
	}
	taken.Sub(taken, Cooling(capacity)) // cooling addresses have no holder
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

// Excluded returns the blocks that the spec of a pool excludes.
func Excluded(spec ipamv1alpha1.IPPoolSpec) []netip.Prefix {
	var excluded []netip.Prefix
	for _, text := range spec.ExcludedCIDRs {
		if prefix, err := netip.ParsePrefix(string(text)); err == nil {
			excluded = append(excluded, prefix)
		}
	}
	return excluded
}

// StaysIn returns the exclusion of the pool that has a part of a block, or all of it. Nobody gets these addresses after
// the block is released.
func (p *Pool) StaysIn(block netip.Prefix) (excluded netip.Prefix, ok bool) {
	if p.Object == nil {
		return netip.Prefix{}, false
	}
	return FirstOverlap(Excluded(p.Object.Spec), block)
}

// Edges returns the blocks that a pool reserves at its two edges.
func Edges(pool netip.Prefix, spec ipamv1alpha1.IPPoolSpec) []netip.Prefix {
	if spec.Reservations == nil {
		return nil
	}
	return cidr.Edges(pool, int(spec.Reservations.UnitPrefixLength), spec.Reservations.Leading, spec.Reservations.Trailing)
}

// Lengths returns the shortest and the longest prefix length of the blocks that a pool gives. If least is above most,
// it gives none.
func Lengths(pool netip.Prefix, spec ipamv1alpha1.IPPoolSpec) (least, most int32) {
	bits, all := int32(pool.Bits()), int32(pool.Addr().BitLen()) //nolint:gosec // at most 128
	return max(spec.Allocation.MinPrefixLength, bits), min(cmp.Or(spec.Allocation.MaxPrefixLength, all), all)
}

// Cooling returns how many addresses of a pool cool after their release.
func Cooling(capacity *ipamv1alpha1.PoolCapacity) *big.Int {
	if capacity != nil {
		if cooling, ok := new(big.Int).SetString(capacity.Cooling, 10); ok {
			return cooling
		}
	}
	return new(big.Int)
}

// CoolsUntil says how much of a pool cools, and when the next part of this is free; empty if nothing cools.
func CoolsUntil(pool *ipamv1alpha1.IPPool) string {
	if Cooling(pool.Status.Capacity).Sign() == 0 {
		return ""
	}
	said := plural.Of(pool.Status.Capacity.Cooling, "address of the pool cools after its release",
		"addresses of the pool cool after their release")
	if next := pool.Status.NextRelease; next != nil {
		said += ", the next of them until " + next.UTC().Format(time.RFC3339)
	}
	return said
}

// Free returns the free blocks of the pool, as far as is known. They are as large as can be, and sorted by address.
func (s Space) Free() []netip.Prefix {
	var free netipx.IPSetBuilder
	free.AddPrefix(s.Pool)
	free.RemoveSet(s.covered())
	set, _ := free.IPSet() // it fails only for invalid ranges
	return set.Prefixes()
}

// Next returns the blocks that the next claims for a length get from the pool, if no other claim comes first. It
// returns count blocks, or fewer if the pool has no more. Like the allocator, it cuts each block from the start of the
// free block that the strategy chooses.
func (s Space) Next(length, count int, strategy ipamv1alpha1.Strategy) []netip.Prefix {
	var next []netip.Prefix
	for len(next) < count && length <= s.Pool.Addr().BitLen() {
		fit := slices.DeleteFunc(s.Free(), func(free netip.Prefix) bool { return free.Bits() > length })
		if len(fit) == 0 {
			break
		}
		block := netip.PrefixFrom(choose(fit, strategy).Addr(), length)
		next, s.Taken = append(next, block), append(slices.Clip(s.Taken), block)
	}
	return next
}

// choose returns the free block from which a strategy cuts. Of several equally good blocks it returns the lowest.
func choose(free []netip.Prefix, strategy ipamv1alpha1.Strategy) netip.Prefix {
	larger := func(a, b netip.Prefix) int { return a.Bits() - b.Bits() }
	switch strategy {
	case ipamv1alpha1.BestFit:
		return slices.MaxFunc(free, larger)
	case ipamv1alpha1.LeastUtilized:
		return slices.MinFunc(free, larger)
	default:
		return free[0]
	}
}
