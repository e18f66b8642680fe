package allocator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Recovery is the Allocator's view of a ledger that may have lost something: it reports losses, freezes spaces, and
// adopts published blocks and pools. It is safe for concurrent use.
type Recovery struct{ a *Allocator }

// Recovery returns the operations on a ledger that may have lost something.
func (a *Allocator) Recovery() Recovery { return Recovery{a} }

// LedgerID returns the ID of the ledger. The Allocator that opens a ledger first makes the ID, at random. A ledger that
// was restored gets another ID, since it may lack blocks that the caller knows.
func (rc Recovery) LedgerID() string { return rc.a.engine.ID }

// Frozen reports whether this pool keeps its space frozen: Trust was not called yet, or the
// pool is frozen in the ledger.
func (rc Recovery) Frozen(id ledger.PoolID) (frozen bool) {
	rc.a.table.Visit(id, func(p *space.Pool) { frozen = p.FreezeReason() >= space.Untrusted })
	return frozen
}

// Behind reports whether the ledger counts fewer than this many changes of a pool's space, or does
// not have the pool. Changes that were made while the space was frozen do not count. While the head of the space cannot
// be read, it returns an error for which Unreadable holds.
func (rc Recovery) Behind(ctx context.Context, id ledger.PoolID, changes int64) (bool, error) {
	if _, err := rc.a.engine.Known(ctx, id); err != nil {
		return errors.Is(err, ledger.ErrUnknownPool), known(err)
	}
	_, err := rc.a.Pools().Changes(id)
	return err == nil && rc.short(id, changes), err
}

// short answers Behind as of memory.
func (rc Recovery) short(id ledger.PoolID, changes int64) bool {
	_, known := rc.a.Pools().Get(id)
	counted, _ := rc.a.Pools().Changes(id)
	return !known || counted < changes
}

// Freeze records in the ledger that it lacks changes of a pool's space: no Allocator, now or later, allocates from that
// space, or the address spaces of the pool, until Resume. For a pool that is not registered, Freeze does nothing;
// register it as a frozen one. since is the RegisteredAt of the pool that lacks changes; zero: whichever pool has the
// ID now. ErrChanged: a derived pool was made again, with the same ID.
func (rc Recovery) Freeze(ctx context.Context, id ledger.PoolID, since time.Time) error {
	p, err := rc.a.engine.Known(ctx, id)
	if err == nil && !p.Frozen {
		check := func(p ledger.Pool) error {
			if !since.IsZero() && !p.RegisteredAt.Equal(since) {
				return fmt.Errorf("%w: it was registered at %s", ledger.ErrChanged, p.RegisteredAt)
			}
			return nil
		}
		err = rc.a.Pools().edit(ctx, edit{pool: p, check: check, change: func(p *ledger.Pool) { p.Frozen = true }})
	}
	if err != nil && !errors.Is(err, ledger.ErrUnknownPool) {
		return fmt.Errorf("freeze pool %s: %w", id, err)
	}
	return nil
}

// Trust notes, in this Allocator only, that the ledger has all blocks of a pool and of its address spaces. Once Trust
// was called for all pools of a space, waiters are served. A pool that is frozen in the ledger stays frozen until
// Resume.
func (rc Recovery) Trust(id ledger.PoolID) {
	rc.a.table.Visit(id, func(p *space.Pool) {
		if p.Untrusted {
			p.In.Room.Unfreeze(func() { p.Untrusted = false })
			p.In.News.Touch(id)
		}
	})
	for _, s := range rc.a.table.Parts(id) {
		rc.Trust(s)
	}
}

// Resume ends the freeze of a pool and its address spaces in the ledger, and calls Trust. Call it when the ledger has
// all of their blocks again. If the space has counted fewer changes than the given number, its count goes on from that
// number. So any copy of the ledger from before the loss has a lower count.
func (rc Recovery) Resume(ctx context.Context, id ledger.PoolID, changes int64) error {
	p, err := rc.a.engine.Known(ctx, id)
	if err == nil && (p.Frozen || rc.short(id, changes)) {
		_, err = rc.a.engine.Submit(ctx, id, engine.Op{Lane: p.Cluster, Alone: true, Plan: resume(id, changes)})
	}
	if err != nil {
		return fmt.Errorf("resume pool %s: %w", id, err)
	}
	rc.Trust(id)
	return nil
}

// Open opens a derived pool that drains or is closed. It is for a pool whose IPPool is published nevertheless. It fails
// with ErrChanged if the pool is not frozen, and with ErrUnknownPool if the pool has retired itself.
func (rc Recovery) Open(ctx context.Context, id ledger.PoolID) error {
	p, err := rc.a.engine.Known(ctx, id)
	if err == nil {
		err = rc.a.Pools().edit(ctx, edit{pool: p, check: mayOpen, change: opened})
	}
	if err != nil {
		return fmt.Errorf("open pool %s: %w", id, err)
	}
	return nil
}

// mayOpen refuses to open a pool that is not derived, or not frozen.
func mayOpen(p ledger.Pool) error {
	if p.Derived == nil || !p.Frozen {
		return fmt.Errorf("%w: pool %s is not derived and frozen", ledger.ErrChanged, p.ID)
	}
	return nil
}

// opened opens a derived pool.
func opened(p *ledger.Pool) {
	p.State, p.CoolsUntil, p.Closing = ledger.PoolOpen, time.Time{}, ledger.Closing{}
}

// resume plans the end of a pool's freeze in the ledger, and raises the count of the space's changes to at least the
// given number.
func resume(id ledger.PoolID, changes int64) func(space.View) (engine.Plan, error) {
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
