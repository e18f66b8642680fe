package allocator

import (
	"cmp"
	"context"
	"iter"
	"net/netip"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Pools is the Allocator's view of the pools: their records, and how much of each is in use. It is safe for concurrent
// use.
type Pools struct{ a *Allocator }

// Pools returns the operations on pools.
func (a *Allocator) Pools() Pools { return Pools{a} }

// Get returns the pool's record as of memory.
func (ps Pools) Get(id ledger.PoolID) (record ledger.Pool, ok bool) {
	ok = ps.a.table.Visit(id, func(p *space.Pool) { record = p.Pool })
	record.Excluded = slices.Clone(record.Excluded)
	return record, ok
}

// Read reads a pool's record from the ledger, and the revision of its last change; ok is
// false if there is none.
func (ps Pools) Read(ctx context.Context, id ledger.PoolID) (p ledger.Pool, revision int64, ok bool, err error) {
	if err := ledger.CheckID("pool", id); err != nil {
		return ledger.Pool{}, 0, false, err
	}
	return ps.a.store.Pool(ctx, id)
}

// All yields all pools in memory, in no order. No lock is held meanwhile: the caller
// may call any method.
func (ps Pools) All() iter.Seq[ledger.Pool] {
	ids := ps.a.table.IDs()
	return func(yield func(ledger.Pool) bool) {
		for _, id := range ids {
			if p, ok := ps.Get(id); ok && !yield(p) {
				return
			}
		}
	}
}

// Count counts the pools in a workspace, child pools included, and others that count for it, as of memory: see
// ledger.Pool.CountsFor.
func (ps Pools) Count(c ledger.ClusterName) int { return ps.a.table.PoolsOf(c) }

// Capacity counts the addresses of a pool, as of memory. In an address domain, a block counts in every pool that it
// overlaps. The blocks of address spaces do not count. The cost of a call does not depend on the number of pools below.
func (ps Pools) Capacity(id ledger.PoolID) (c ledger.Capacity, ok bool) {
	ok = ps.a.table.Visit(id, func(p *space.Pool) { c = p.Capacity() })
	return c, ok
}

// Changes counts the changes to the space of a pool and to its address spaces, including those that are gone, as of
// memory. While an address space is being removed, the count may be too low, but never too high. If the head of one of
// these spaces cannot be read, Changes returns an error.
func (ps Pools) Changes(id ledger.PoolID) (n int64, err error) {
	parts := ps.a.table.Parts(id)
	// The pool comes first: it takes over the changes of the address spaces that go.
	for _, of := range append([]ledger.PoolID{id}, parts...) {
		ps.a.table.Visit(of, func(p *space.Pool) {
			n += p.In.Head.Count
			err = cmp.Or(err, p.In.Head.Damage)
		})
	}
	return n, err
}

// InUse reports whether somebody holds a block of a pool, or of one of its address spaces, as of memory. The block of a
// derived pool counts only if a claim holds that pool, or if that pool is in use itself. Unlike Capacity, InUse costs
// the same however many blocks there are.
func (ps Pools) InUse(id ledger.PoolID) bool {
	held := 0
	ps.a.table.Visit(id, func(p *space.Pool) { held = p.Held() })
	below := ps.a.table.Below(id)
	for _, child := range below {
		if held > len(below) {
			return true
		}
		p, ok := ps.Get(child)
		if !ok || p.Derived == nil {
			continue
		}
		if p.Derived.Holder.Claim != "" || ps.InUse(child) {
			return true
		}
		if p.Parent != "" {
			held--
		}
	}
	return held > 0
}

// MayHold reports whether somebody holds a block of a pool itself, as of memory. It is also true if a key of the pool's
// space cannot be read, because that key may be such a block. The blocks of derived pools do not count.
func (ps Pools) MayHold(id ledger.PoolID) bool {
	held, damaged := 0, false
	ps.a.table.Visit(id, func(p *space.Pool) { held, damaged = p.Held(), len(p.In.Damage) > 0 })
	if damaged || held == 0 {
		return damaged
	}
	for _, child := range ps.a.table.Below(id) {
		if p, ok := ps.Get(child); ok && p.Derived != nil && p.Parent != "" {
			held--
		}
	}
	return held > 0
}

// Fit returns the length of the smallest free block of a pool that can hold a prefix of the given length, as of memory;
// ok is false if there is none.
func (ps Pools) Fit(id ledger.PoolID, length int) (fit int, ok bool) {
	free, _ := ps.FreeBlocks(id)
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
func (ps Pools) FreeBlocks(id ledger.PoolID) (free index.Histogram, ok bool) {
	ok = ps.a.table.Visit(id, func(p *space.Pool) { free = p.Index.Histogram() })
	return free, ok
}

// Overlapping lists the blocks of a pool's space that overlap a prefix, whichever pool they are of.
func (ps Pools) Overlapping(ctx context.Context, id ledger.PoolID, prefix netip.Prefix) ([]ledger.Block, error) {
	in := ledger.SpaceID(id)
	if !ledger.IsAddressSpace(id) { // an address space need not exist: then it has no block
		p, err := ps.a.engine.Known(ctx, id)
		if err != nil {
			return nil, err
		}
		in = p.Space
	}
	records, _, err := ps.a.store.Overlapping(ctx, in, prefix)
	if err != nil {
		return nil, err
	}
	var blocks []ledger.Block
	for _, r := range records {
		blocks = append(blocks, r.Block())
	}
	return blocks, nil
}
