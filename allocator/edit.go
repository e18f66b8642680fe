package allocator

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// Exclude replaces the list of prefixes from which a pool allocates nothing. Blocks that
// lie in them already stay. If the pool has this list, Exclude writes nothing.
func (a *Allocator) Exclude(ctx context.Context, id PoolID, list []netip.Prefix) error {
	p, err := a.engine.Known(ctx, id)
	if err != nil {
		return err
	}
	if list, err = exclusions(p, list); err != nil || slices.Equal(list, p.Excluded) {
		return err
	}
	return a.engine.Submit(ctx, id, &edit{pool: p, check: anyState, change: func(p *Pool) { p.Excluded = list }})
}

// Drain closes a pool for good. It allocates nothing more, keeps its blocks and its CIDR,
// and is retired by itself when its last block is gone. A second Drain changes nothing.
// While the ledger is known to lack changes of the pool's space, Drain refuses with
// *FrozenError: a pool that seems to be empty may have lost its blocks.
func (a *Allocator) Drain(ctx context.Context, id PoolID) error {
	p, err := a.engine.Known(ctx, id)
	if err != nil {
		return err
	}
	return a.engine.Submit(ctx, id, &edit{pool: p, check: anyState, change: func(p *Pool) { p.State = PoolDraining }})
}

// edit is the op of a change to a pool's record.
type edit struct {
	pool   Pool
	change func(*Pool)
	idle   bool             // only if no block of the pool has a holder, else ErrPoolInUse
	check  func(Pool) error // may refuse the pool as it is then
	next   Pool
	inUse  bool
	same   bool // there is nothing to change
}

func (e *edit) Cluster() ClusterName   { return e.pool.Cluster }
func (e *edit) Claim() (ClaimID, bool) { return "", false }

func (e *edit) Plan(s *engine.Worker) (engine.Share, error) {
	p := s.Pool(e.pool.ID)
	if p == nil {
		return engine.Share{}, engine.ErrGone
	}
	if err := e.check(p.Pool); err != nil {
		return engine.Share{}, err
	}
	if e.inUse = e.idle && p.Held() > 0; e.inUse {
		return engine.Share{}, nil // the transaction confirms that it is so
	}
	e.next = p.Pool
	e.change(&e.next)
	if e.next.State == PoolDraining && p.Parent != "" {
		e.next.CoolsUntil = later(e.next.CoolsUntil, p.Cools.Last())
	}
	if e.next.State != p.State && e.next.State == PoolDraining && s.Room.Pools.Frozen() == space.LostChanges {
		return engine.Share{}, &FrozenError{Pool: p.ID, Lost: true}
	}
	if e.same = e.next.State == p.State && e.next.CoolsUntil.Equal(p.CoolsUntil) && e.next.Frozen == p.Frozen && e.next.Disputed == p.Disputed && slices.Equal(e.next.Excluded, p.Excluded); e.same {
		return engine.Share{}, nil // the transaction confirms that it is so
	}
	return engine.Share{Then: store.Ops(store.Put(s.Keys.Pool(p.ID), store.EncodePool(e.next)))}, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (e *edit) Won(s *engine.Worker, revision int64, _ store.Results) error {
	if e.inUse {
		return ErrPoolInUse
	}
	if s.Pool(e.pool.ID) != nil && !e.same && revision > s.Known {
		s.PutPool(e.next)
	}
	return nil
}

func (e *edit) Lost(*engine.Worker, engine.Loss) error { return engine.ErrAgain }
