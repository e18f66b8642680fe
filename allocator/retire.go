package allocator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// retryRetire is the pause before a drained pool is tried again, after a fault.
const retryRetire = time.Second

// Retire removes an empty pool from the ledger. The same transaction frees a child's block in the parent. The block
// cools there for the longer of two times: the parent's cooldown, and the rest of the cooldowns inside the child.
//
// Blocks that cool do not count: they are freed with the pool. A pool with other blocks is refused
// with ErrPoolInUse. For a pool that is not registered, Retire does nothing.
func (ps Pools) Retire(ctx context.Context, id ledger.PoolID) error {
	r := retirement{Allocator: ps.a, id: id}
	return r.run(ctx)
}

// Retire retires a pool that Begin has closed for a claim, as Pools.Retire does. It fails with ErrChanged if the pool
// is open, or closed for another claim, whose DELETE may fail.
func (d Derived) Retire(ctx context.Context, id ledger.PoolID, by ledger.ClaimID) error {
	r := retirement{Allocator: d.a, id: id, check: func(p ledger.Pool) error {
		if !p.Closed() || p.Closing.By != by || p.Derived.Holder.Claim != by {
			return fmt.Errorf("%w: it is not closed for claim %q any more", ledger.ErrChanged, by)
		}
		return nil
	}}
	return r.run(ctx)
}

// draining refuses an open pool: the pool that drained may be gone, and another pool registered under its ID.
func draining(p ledger.Pool) error {
	if p.State != ledger.PoolDraining {
		return ledger.ErrPoolInUse
	}
	return nil
}

// retirement is the removal of an empty pool, unless the check refuses it.
type retirement struct {
	*Allocator
	id    ledger.PoolID
	check func(ledger.Pool) error // nil: it refuses none
}

var (
	// errCooling says that all blocks of the pool, and of its address spaces, cool.
	errCooling = errors.New("blocks of the pool are cooling")
	// errSpaces says that the pool has address spaces, which are empty.
	errSpaces = errors.New("the pool has address spaces")
)

func (r *retirement) run(ctx context.Context) error {
	if ledger.IsAddressSpace(r.id) {
		return fmt.Errorf("%w: %s is an address space, which goes with its last block", ledger.ErrInvalid, r.id)
	}
	p, err := r.engine.Known(ctx, r.id)
	for attempts := pace(0); err == nil; {
		if p.Parent == "" {
			_, err = r.engine.Submit(ctx, r.id, engine.Op{Lane: p.Cluster, Alone: true, Plan: r.plan})
		} else {
			err = r.child(ctx)
		}
		switch {
		case errors.Is(err, errCooling):
			err = r.endCooldowns(ctx)
		case errors.Is(err, errSpaces):
			err = r.leaveAll(ctx)
		case errors.Is(err, engine.ErrOvertaken):
			err = attempts.wait(ctx)
		default:
			return known(err)
		}
	}
	return known(err)
}

// known returns the error, or nil if it says that the pool is not in the ledger.
func known(err error) error {
	if errors.Is(err, ledger.ErrUnknownPool) {
		return nil
	}
	return err
}

// retireDrained retires a pool, or ends an address space, whose last block is gone. It retries until that succeeds, or
// the pool is in use again.
func (ps Pools) retireDrained(p *space.Pool) {
	r := retirement{Allocator: ps.a, check: draining}
	p.In.Read(func() { r.id = p.ID })
	run := r.run
	if ledger.IsAddressSpace(r.id) {
		run = func(ctx context.Context) error { return ps.a.leave(ctx, r.id, (*space.Pool).Waited) }
	}
	for {
		err := run(ps.a.engine.Ctx)
		if err == nil || errors.Is(err, ledger.ErrPoolInUse) || ps.a.engine.Ctx.Err() != nil {
			break
		}
		ps.a.options.Logger.Warn("cannot retire a drained pool yet", "pool", r.id, "error", err)
		select {
		case <-time.After(retryRetire):
		case <-ps.a.engine.Ctx.Done():
		}
	}
	p.In.Lock()
	defer p.In.Unlock()
	p.Retiring = false
	p.In.News.Touch(p.ID) // its last block may have gone meanwhile
}

// endCooldowns frees the cooling blocks of a pool that has no other blocks, and of its address spaces. It lets the pool
// drain first, so that no bind gets these blocks before the end of their cooldown. The record of a child keeps the end
// of the last cooldown: until that time the child's own block cools in the parent.
func (r *retirement) endCooldowns(ctx context.Context) error {
	p, err := r.engine.Known(ctx, r.id)
	if err != nil {
		return err
	}
	if err := r.drain(ctx, edit{pool: p}); err != nil {
		return err
	}
	for _, id := range append(r.table.Parts(r.id), r.id) {
		if _, err := r.Pools().endCooldowns(ctx, id, engine.EndCooldowns{Of: id}); known(err) != nil {
			return err
		}
	}
	return nil
}

// leaveAll ends the address spaces of a pool, which are empty. The claims that wait there are woken: a waiting claim
// keeps no pool.
func (r *retirement) leaveAll(ctx context.Context) error {
	goes := func(*space.Pool) bool { return false }
	for _, s := range r.table.Parts(r.id) {
		if err := r.leave(ctx, s, goes); err != nil {
			return err
		}
	}
	return nil
}

// drain sets the pool to draining, so that it allocates nothing more. Then it makes r.check refuse any later pool of
// this ID, because another caller may retire this pool first, and register a new one.
func (r *retirement) drain(ctx context.Context, e edit) error {
	e.idle, e.check, e.change = true, r.check, drain
	done, err := r.engine.Submit(ctx, r.id, engine.Op{Lane: e.pool.Cluster, Alone: true, Plan: e.plan})
	if err != nil {
		return err
	}
	before := r.check
	r.check = func(p ledger.Pool) error {
		if draining(p) != nil || !p.RegisteredAt.Equal(done.Pool.RegisteredAt) {
			return ledger.ErrUnknownPool
		}
		if before != nil {
			return before(p)
		}
		return nil
	}
	return nil
}

func drain(p *ledger.Pool) { p.State = ledger.PoolDraining }

// plan plans the retirement of a root pool.
func (r *retirement) plan(v space.View) (engine.Plan, error) {
	p := v.Pool(r.id)
	if p == nil {
		return engine.Plan{}, engine.ErrGone
	}
	if err := r.empty(v, p); err != nil {
		return refusing(err)
	}
	changes := []store.Change{v.Keys.RemovePool(p.Pool)}
	if len(v.Pools()) == 1 { // the space ends with its last pool
		changes = append(changes, v.Keys.RemoveHead())
	}
	return engine.Plan{Changes: changes}, nil
}

// empty refuses a pool that is not to be removed, or not yet. The caller holds the lock of its space.
func (r *retirement) empty(v space.View, p *space.Pool) error {
	if err := p.In.Damage.Err(); err != nil { // a key that cannot be read may be a block
		return err
	}
	if r.check != nil {
		if err := r.check(p.Pool); err != nil {
			return err
		}
	}
	parts, err := partsOf(v, p)
	switch {
	case err != nil:
		return err
	case p.Used() || parts.Held:
		return ledger.ErrPoolInUse
	case p.Cools.Own > 0 || parts.Cools:
		return errCooling
	case parts.Spaces > 0:
		return errSpaces
	}
	return nil
}

// partsOf returns how the address spaces of a pool are used. It fails if one cannot be read.
func partsOf(v space.View, p *space.Pool) (space.Part, error) {
	parts := v.Table().PartsOf(p.ID)
	return parts, cmp.Or(parts.Err(), v.Table().DamagedOf(p.ID, v.Keys.Keys))
}

// refusing returns the plan of a retirement that is refused. If the pool is in use, the transaction confirms that.
func refusing(err error) (engine.Plan, error) {
	if errors.Is(err, ledger.ErrPoolInUse) {
		return engine.Refuse(err)
	}
	return engine.Plan{}, err
}

// child removes a child pool, by an operation on the space of the parent, in the lane of the child's own workspace.
func (r *retirement) child(ctx context.Context) error {
	p, err := r.engine.Known(ctx, r.id)
	if err != nil {
		return err
	}
	o := &uncarve{retirement: *r, child: p}
	if err := o.look(ctx); err != nil {
		return err
	}
	_, err = r.engine.Submit(ctx, p.Parent, engine.Op{Lane: p.Cluster, Alone: true, Plan: o.plan})
	if _, there := r.table.Find(p.Parent); !there && errors.Is(err, ledger.ErrUnknownPool) {
		return fmt.Errorf("pool %s, above pool %s, is not in the ledger", p.Parent, r.id)
	}
	if err == nil && !o.lacks {
		r.engine.Metrics.Released.Inc()
	}
	return err
}
