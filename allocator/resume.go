package allocator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// Frozen reports whether this pool keeps its space frozen: Trust was not called yet, or the
// pool is frozen in the ledger.
func (a *Allocator) Frozen(id PoolID) (frozen bool) {
	a.table.Visit(id, func(p *space.Pool) { frozen = p.FreezeReason() >= space.Untrusted })
	return frozen
}

// Behind reports whether the ledger counts fewer than this many changes of a pool's space, or does
// not have the pool. Changes that were made while the space was frozen do not count.
func (a *Allocator) Behind(ctx context.Context, id PoolID, changes int64) (bool, error) {
	p, err := a.engine.Known(ctx, id)
	if errors.Is(err, ErrUnknownPool) {
		return true, nil
	}
	if err != nil || !a.short(id, changes) {
		return false, err
	}
	// Memory may lack changes of other Allocators.
	_, revision, err := a.store.Get(ctx, a.keys.Space(p.Space).Head())
	if err == nil {
		err = a.engine.AwaitAll(ctx, revision)
	}
	return err == nil && a.short(id, changes), err
}

// short is Behind as of memory.
func (a *Allocator) short(id PoolID, changes int64) bool {
	_, known := a.Pool(id)
	return !known || a.changesIn(append([]PoolID{id}, a.spacesOf(id)...)) < changes
}

// changesIn adds up the changes to the spaces of some pools.
func (a *Allocator) changesIn(pools []PoolID) (n int64) {
	for _, id := range pools {
		a.table.Visit(id, func(p *space.Pool) { n += p.In.Head.Count })
	}
	return n
}

// Freeze records in the ledger that it lacks changes of a pool's space: no Allocator, now or
// later, allocates from that space, or the address spaces of the pool, until Resume. For a pool that is not registered, Freeze does
// nothing; register it as a frozen one.
func (a *Allocator) Freeze(ctx context.Context, id PoolID) error {
	p, err := a.engine.Known(ctx, id)
	if err == nil && !p.Frozen {
		err = a.edit(ctx, edit{pool: p, change: func(p *Pool) { p.Frozen = true }})
	}
	if err == nil {
		err = a.follow(ctx, id)
	}
	if err != nil && !errors.Is(err, ErrUnknownPool) {
		return fmt.Errorf("freeze pool %s: %w", id, err)
	}
	return nil
}

// Trust notes, in this Allocator only, that the ledger has all blocks of a pool, and of its address spaces. When it has been
// called for all pools of a space, waiters are served. A pool that is frozen in the ledger stays
// frozen until Resume.
func (a *Allocator) Trust(id PoolID) {
	a.table.Visit(id, func(p *space.Pool) {
		if p.Untrusted {
			p.In.Room.Unfreeze(func() { p.Untrusted = false })
			p.In.News.Touch(id)
		}
	})
	for _, s := range a.spacesOf(id) {
		a.Trust(s)
	}
}

// Resume ends the freeze of a pool in the ledger, and then of its address spaces, which has all of their blocks again, and
// calls Trust. If the count of the space's changes is less than changes, it goes on from there.
// So copies of the ledger from before the loss count less than the ledger does from now on.
func (a *Allocator) Resume(ctx context.Context, id PoolID, changes int64) error {
	p, err := a.engine.Known(ctx, id)
	if err == nil && (p.Frozen || a.short(id, changes)) {
		_, err = a.engine.Submit(ctx, id, engine.Op{Lane: p.Cluster, Alone: true, Plan: resume(id, changes)})
	}
	if err == nil {
		err = a.follow(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("resume pool %s: %w", id, err)
	}
	a.Trust(id)
	return nil
}

// resume plans the end of a pool's freeze in the ledger, and raises the count of the
// space's changes.
func resume(id PoolID, changes int64) func(space.View) (engine.Plan, error) {
	return func(v space.View) (engine.Plan, error) {
		p := v.Pool(id)
		if p == nil {
			return engine.Plan{}, engine.ErrGone
		}
		next := p.Pool
		next.Frozen = false
		return engine.Plan{Changes: []store.Change{v.Keys.PutPool(next), v.Keys.PutHead(v.Next(changes))}}, nil
	}
}

// Overlapping lists the blocks of a pool's space that overlap a prefix, once for each
// holder, of any pool.
func (a *Allocator) Overlapping(ctx context.Context, id PoolID, prefix netip.Prefix) ([]Block, error) {
	p, err := a.engine.Known(ctx, id)
	if err != nil {
		return nil, err
	}
	records, _, err := a.store.Overlapping(ctx, p.Space, prefix)
	if err != nil {
		return nil, err
	}
	var blocks []Block
	for _, r := range records {
		for _, h := range r.Holdings {
			blocks = append(blocks, r.Block(h))
		}
	}
	return blocks, nil
}
