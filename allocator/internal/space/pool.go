package space

import (
	"math/big"
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Pool is a pool of a space in memory. Its space's lock guards it.
type Pool struct {
	ledger.Pool
	In        *Space
	Index     *index.Index
	Cools     coolingWindow
	Waiting   waitlist
	Retiring  bool // a goroutine retires it
	Untrusted bool // it began frozen, and Trust was not called yet
}

func newPool(s *Space, record ledger.Pool) *Pool {
	// A derived pool that comes while the ledger is followed is new: those that were published come back frozen.
	isNew := record.Derived != nil && s.reading == nil
	p := &Pool{Pool: record, In: s, Index: index.New(record.CIDR), Untrusted: s.Table.Frozen && !isNew}
	for _, x := range record.Excluded {
		p.Index.Exclude(x)
	}
	return p
}

// Capacity counts the addresses that the ledger has allocated. What is only reserved in memory counts
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

// unreserved is how many addresses are free, those that are only held or drafted included. The index tells which of
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

// Used reports whether the pool has to stay: somebody has a block of it, or holds the pool itself.
func (p *Pool) Used() bool { return p.Held() > 0 || p.Kept() }

// Held is the number of the pool's blocks that have a holder. Cooling ones have none.
func (p *Pool) Held() int { return p.blocks() - p.Cools.Own }

// blocks is the number of the pool's blocks in the ledger, cooling ones included.
func (p *Pool) blocks() int {
	if len(p.In.Room.Pools) == 1 {
		return p.Index.Blocks() - p.In.Room.reserved.len() - p.In.draft.len()
	}
	return p.In.Blocks.count[p.ID]
}
