package allocator

import (
	"context"
	"iter"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Pool is the pool's record as known here.
func (a *Allocator) Pool(id PoolID) (record Pool, ok bool) {
	ok = a.table.Visit(id, func(p *space.Pool) { record = p.Pool })
	record.Excluded = slices.Clone(record.Excluded)
	return record, ok
}

// Registered reads a pool's record from the ledger, and the revision of its last change; ok is
// false if there is none.
func (a *Allocator) Registered(ctx context.Context, id PoolID) (p Pool, revision int64, ok bool, err error) {
	if err := ledger.CheckID("pool", id); err != nil {
		return Pool{}, 0, false, err
	}
	return a.store.Pool(ctx, id)
}

// Pools yields all pools known here, in no order. It is a snapshot: the caller
// may do anything meanwhile.
func (a *Allocator) Pools() iter.Seq[Pool] {
	ids := a.table.IDs()
	return func(yield func(Pool) bool) {
		for _, id := range ids {
			if p, ok := a.Pool(id); ok && !yield(p) {
				return
			}
		}
	}
}

// Capacity counts what a pool holds, as known here. Pools of one address domain
// share what they have in common, so a block of one counts in the others too.
func (a *Allocator) Capacity(id PoolID) (c Capacity, ok bool) {
	ok = a.table.Visit(id, func(p *space.Pool) { c = p.Capacity() })
	return c, ok
}

// Fit is the length of the smallest free block of a pool that can hold a prefix
// of the given length, as known here; ok is false when there is none.
func (a *Allocator) Fit(id PoolID, length int) (fit int, ok bool) {
	free, _ := a.FreeBlocks(id)
	for fit = min(length, len(free)-1); fit >= 0; fit-- {
		if free[fit] > 0 {
			return fit, true
		}
	}
	return 0, false
}

// FreeBlocks counts the free blocks of a pool by prefix length, as known here: the
// fewest that its free space can be seen as. What is reserved for a transaction or
// held for a claim that waits is not free.
func (a *Allocator) FreeBlocks(id PoolID) (free index.Histogram, ok bool) {
	ok = a.table.Visit(id, func(p *space.Pool) { free = p.Index.Histogram() })
	return free, ok
}
