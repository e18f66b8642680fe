package allocator

import (
	"math/big"

	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// pool is a pool of a space in memory. Its space's lock guards it.
type pool struct {
	Pool
	space    *space
	index    *index.Index
	owned    int // blocks in the ledger, as far as the space notes whose each is
	chill    chill
	waiting  waiting
	retiring bool // drained, and about to be retired
	unseen   bool // begins frozen, and was not trusted yet
}

func newPool(s *space, record Pool) *pool {
	p := &pool{Pool: record, space: s, index: index.New(record.CIDR), unseen: s.table.Frozen}
	for _, x := range record.Excluded {
		p.index.Exclude(x)
	}
	return p
}

// capacity counts what the ledger holds: a reservation is not an allocation.
func (p *pool) capacity() Capacity {
	c := Capacity{Total: p.index.Total(), Available: p.index.Available(), Blocks: p.held(), Changes: p.space.head.Count, LargestFree: -1}
	for prefix := range p.space.reserved {
		if p.CIDR.Overlaps(prefix) {
			c.Available.Add(c.Available, cidr.Size(cidr.Narrower(p.CIDR, prefix)))
		}
	}
	c.Cooling, c.NextRelease = new(big.Int).Set(&p.chill.sum), p.nextRelease()
	c.Allocated = new(big.Int).Sub(c.Total, c.Available)
	if length, ok := p.index.Largest(); ok {
		c.LargestFree = length
	}
	for _, x := range p.Excluded {
		c.Stranded += p.index.Overlapping(x)
	}
	return c
}

// held is the number of the pool's blocks that somebody has: not those that cool.
func (p *pool) held() int { return p.blocks() - p.chill.own }

// blocks is the number of the pool's blocks in the ledger, cooling ones included.
func (p *pool) blocks() int {
	if len(p.space.pools) == 1 {
		return p.index.Blocks() - len(p.space.reserved)
	}
	return p.owned
}
