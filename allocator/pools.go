package allocator

import (
	"context"
	"iter"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Pool is the pool's record as of memory.
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

// Pools yields all pools in memory, in no order. No lock is held meanwhile: the caller
// may call any method.
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

// PoolsOf counts the pools of a cluster in memory, child pools included.
func (a *Allocator) PoolsOf(c ClusterName) int { return a.table.PoolsOf(c) }

// Capacity counts the addresses of a pool, as of memory. A block counts in every pool of
// the address domain that it overlaps. Those of address spaces do not count, but Changes has theirs.
func (a *Allocator) Capacity(id PoolID) (c Capacity, ok bool) {
	ok = a.table.Visit(id, func(p *space.Pool) { c = p.Capacity() })
	c.Changes += a.changesIn(a.spacesOf(id))
	return c, ok
}

// InUse reports whether somebody holds a block of a pool, or of an address space of it, as of memory. The block of a derived pool
// does not count, if no claim holds that pool and it is not in use itself. Unlike Capacity it costs the same however many
// blocks there are.
func (a *Allocator) InUse(id PoolID) bool {
	held := 0
	a.table.Visit(id, func(p *space.Pool) { held = p.Held() })
	below := a.table.Below(id)
	for _, child := range below {
		if held > len(below) {
			return true
		}
		p, ok := a.Pool(child)
		if !ok || p.Derived == nil {
			continue
		}
		if p.Derived.Holder.Claim != "" || a.InUse(child) {
			return true
		}
		if p.Parent != "" {
			held--
		}
	}
	return held > 0
}

// Fit is the length of the smallest free block of a pool that can hold a prefix
// of the given length, as of memory; ok is false when there is none.
func (a *Allocator) Fit(id PoolID, length int) (fit int, ok bool) {
	free, _ := a.FreeBlocks(id)
	for fit = min(length, len(free)-1); fit >= 0; fit-- {
		if free[fit] > 0 {
			return fit, true
		}
	}
	return 0, false
}

// FreeBlocks counts the free blocks of a pool by prefix length, as of memory: the
// fewest that make up its free space. A prefix that is reserved for a transaction or
// held for a waiting claim is not free.
func (a *Allocator) FreeBlocks(id PoolID) (free index.Histogram, ok bool) {
	ok = a.table.Visit(id, func(p *space.Pool) { free = p.Index.Histogram() })
	return free, ok
}
