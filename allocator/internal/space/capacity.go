package space

import (
	"iter"
	"math/big"
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Capacity counts the addresses that the ledger has allocated. Addresses that are only reserved in memory count
// as available.
func (p *Pool) Capacity() ledger.Capacity {
	c := ledger.Capacity{Total: p.Index.Total(), Available: p.unreserved(), Blocks: p.Held(), Changes: p.In.Head.Count, LargestFree: -1}
	c.Cooling, c.NextRelease = new(big.Int).Set(&p.Cools.sum), p.Cools.Next()
	c.Allocated = new(big.Int).Sub(c.Total, c.Available)
	if length, ok := p.Index.Largest(); ok {
		c.LargestFree = length
	}
	for _, x := range p.Excluded {
		c.Stranded += p.Index.Overlapping(x)
	}
	return c
}

// unreserved returns how many addresses are free, those that are only held or drafted included. The index tells which of
// these are excluded, or in a block that another Allocator has bound.
func (p *Pool) unreserved() *big.Int {
	var mine []netip.Prefix
	for prefix := range p.In.reserved() {
		if p.Index.Put(prefix) {
			mine = append(mine, prefix)
		}
	}
	available := p.Index.Available()
	for _, prefix := range mine {
		p.Index.Take(prefix)
	}
	return available
}

// reserved yields the prefixes that are taken in the indexes and not in the ledger: those that are held for waiters, and
// those of the draft.
func (s *Space) reserved() iter.Seq[netip.Prefix] {
	return func(yield func(netip.Prefix) bool) {
		for prefix := range s.Room.reserved.all() {
			if !yield(prefix) {
				return
			}
		}
		for i := range s.draft.len() {
			if !yield(s.draft.taken[i].prefix) {
				return
			}
		}
	}
}

// Neighbours counts the blocks of the ledger that overlap a prefix of the pool.
func (p *Pool) Neighbours(prefix netip.Prefix) int {
	n := p.Index.Overlapping(prefix)
	for reserved := range p.In.Room.reserved.all() {
		if reserved.Overlaps(prefix) {
			n--
		}
	}
	return n
}
