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
	c := ledger.Capacity{
		Total: p.Index.Total(), Available: p.unreserved(), Blocks: p.Held(), Changes: p.In.Head.Count, LargestFree: -1,
	}
	c.Cooling, c.NextRelease = new(big.Int).Set(&p.Cools.sum), p.Cools.Next()
	c.Allocated = new(big.Int).Sub(c.Total, c.Available)
	if length, ok := p.Index.Largest(); ok {
		c.LargestFree = length
	}
	c.Stranded = p.stranded()
	return c
}

// stranded counts the blocks that lie in an exclusion, in part or whole.
func (p *Pool) stranded() (n int) {
	var last netip.Prefix
	for _, x := range p.Excluded { // in order: an exclusion comes before those inside it
		if last.IsValid() && last.Overlaps(x) {
			continue
		}
		n += p.Index.Overlapping(x) - p.containing(last, x)
		last = x
	}
	return n
}

// containing counts the blocks that contain two exclusions, a and b. Neither of these contains the other. If a is not
// valid, it returns zero.
func (p *Pool) containing(a, b netip.Prefix) (n int) {
	for bits := 0; a.IsValid(); bits++ {
		both := netip.PrefixFrom(b.Addr(), bits).Masked()
		if !both.Contains(a.Addr()) {
			break
		}
		if p.In.Blocks.has(both) {
			n++
		}
	}
	return n
}

// unreserved returns how many addresses are free, including those that are only held for a waiter, or drafted. It frees
// these in the index, counts, and takes them again: only the index tells which of them are excluded, too.
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

// reserved yields the prefixes that are taken in the indexes and not in the ledger: those that are held for waiters,
// and those of the draft.
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
