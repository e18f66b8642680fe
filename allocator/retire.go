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

// retryRetire is the pause before a drained pool is tried again, after a fault.
const retryRetire = time.Second

// Retire removes an empty pool from the ledger. The same transaction frees a child's block
// in the parent, where it cools for the longer of the parent's cooldown and what is left of the
// cooldowns inside the child.
//
// Blocks that cool do not count: they are freed with the pool. A pool with other blocks is refused
// with ErrPoolInUse. For a pool that is not registered, Retire does nothing.
func (ps Pools) Retire(ctx context.Context, id ledger.PoolID) error {
	r := retirement{Allocator: ps.a, id: id}
	return r.run(ctx)
}

// Retire retires a pool that Begin has closed for a claim, as Pools.Retire does. It fails with ErrChanged if the pool is open, or closed for
// another claim, whose DELETE may fail.
func (d Derived) Retire(ctx context.Context, id ledger.PoolID, by ledger.ClaimID) error {
	r := retirement{Allocator: d.a, id: id, check: func(p ledger.Pool) error {
		if !p.Closed() || p.Derived.Holder.Claim != by {
			return fmt.Errorf("%w: it is not closed for claim %q any more", ledger.ErrChanged, by)
		}
		return nil
	}}
	return r.run(ctx)
}

// draining refuses an open pool: the one that drained may be gone, and another one registered under
// its ID.
func draining(p ledger.Pool) error {
	if p.State != ledger.PoolDraining {
		return ledger.ErrPoolInUse
	}
	return nil
}

// retirement is the removal of an empty pool, unless the check refuses it.
type retirement struct {
	*Allocator
	id      ledger.PoolID
	check   func(ledger.Pool) error // nil: it refuses none
	drained bool                    // the pool was open, and drains for this retirement, as addresses cool in its address spaces
}

// run retires the pool. If it has drained the pool, and a claim got a block in an address space meanwhile, it opens the pool again.
func (r *retirement) run(ctx context.Context) error {
	err := r.attempt(ctx)
	if r.drained && errors.Is(err, ledger.ErrPoolInUse) {
		return errors.Join(err, r.reopen(ctx))
	}
	return err
}

func (r *retirement) attempt(ctx context.Context) error {
	p, err := r.engine.Known(r.id)
	for attempts := pace(0); err == nil; {
		if p.Above() == "" {
			_, err = r.engine.Submit(ctx, r.id, engine.Op{Lane: p.Cluster, Alone: true, Plan: r.plan})
		} else {
			err = r.child(ctx)
		}
		if errors.Is(err, errCooling) {
			if err = r.endCooldowns(ctx); err == nil {
				continue
			}
		}
		switch {
		case errors.Is(err, errSpaces):
			err = r.addressSpaces(ctx)
		case errors.Is(err, engine.ErrOvertaken):
			err = nil
		default:
			return known(err)
		}
		if err == nil {
			err = attempts.wait(ctx)
		}
	}
	return known(err)
}

// known returns the error of a retirement. A pool that is not there needs none.
func known(err error) error {
	if errors.Is(err, ledger.ErrUnknownPool) {
		return nil
	}
	return err
}

// retireDrained retires a pool whose last block is gone. It retries until that succeeds, or
// the pool is in use again.
func (ps Pools) retireDrained(p *space.Pool) {
	r := retirement{Allocator: ps.a, check: draining}
	p.In.Read(func() { r.id = p.ID })
	for {
		err := r.run(ps.a.engine.Ctx)
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

// errCooling: all blocks of the pool cool.
var errCooling = errors.New("blocks of the pool are cooling")

// endCooldowns frees the cooling blocks of a pool that has no others. It closes the pool first,
// so that no bind gets them before the end of their cooldown. The record of a child keeps the end
// of the last cooldown: until then the child's own block cools in the parent.
func (r *retirement) endCooldowns(ctx context.Context) error {
	p, err := r.engine.Known(r.id)
	if err != nil {
		return err
	}
	if ledger.IsAddressSpace(r.id) {
		if of, ok := r.Pools().Get(p.Derived.Of); ok && of.State == ledger.PoolOpen {
			return errOpen
		}
	}
	if err := r.drain(ctx, edit{pool: p}); err != nil {
		return err
	}
	_, err = r.Pools().endCooldowns(ctx, r.id, engine.EndCooldowns{Of: r.id})
	return err
}

// addressSpaces retires the address spaces of a pool. The pool is drained before the first one in which addresses cool.
func (r *retirement) addressSpaces(ctx context.Context) error {
	err := spaces{r.Allocator}.retire(ctx, r.id)
	if !errors.Is(err, errOpen) {
		return err
	}
	p, err := r.engine.Known(r.id)
	if err != nil {
		return err
	}
	err = r.drain(ctx, edit{pool: p, spaced: true})
	r.drained = err == nil
	return err
}

// reopen opens the pool again that the retirement has drained, unless it has gone.
func (r *retirement) reopen(ctx context.Context) error {
	p, err := r.engine.Known(r.id)
	if err == nil {
		err = r.Pools().edit(ctx, edit{pool: p, check: r.check, change: func(p *ledger.Pool) { p.State = ledger.PoolOpen }})
	}
	return known(err)
}

// drain lets the pool allocate nothing more. From then on the retirement is that of this pool alone: another caller may remove it first,
// and a pool be registered under its ID again.
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
func (r retirement) plan(v space.View) (engine.Plan, error) {
	p := v.Pool(r.id)
	if p == nil {
		return engine.Plan{}, engine.ErrGone
	}
	if r.check != nil {
		if err := r.check(p.Pool); err != nil {
			return engine.Plan{}, err
		}
	}
	switch {
	case p.Used():
		return engine.Refuse(ledger.ErrPoolInUse)
	case p.Spaces > 0:
		return engine.Plan{}, errSpaces
	case p.Cools.Own > 0:
		return engine.Plan{}, errCooling
	}
	changes := []store.Change{v.Keys.RemovePool(p.Pool)}
	if len(v.Pools()) == 1 { // the space ends with it
		changes = append(changes, v.Keys.RemoveHead())
	}
	return engine.Plan{Changes: changes}, nil
}

// child removes a child pool through the worker of its parent. The transaction compares
// the child's head: by that head the child is empty.
func (r retirement) child(ctx context.Context) error {
	p, ok := r.table.Find(r.id)
	if !ok {
		return ledger.ErrUnknownPool
	}
	o, err := newUncarve(p, r.check)
	if err == nil {
		err = o.look(ctx, r.Allocator)
	}
	if err != nil {
		return err
	}
	_, err = r.engine.Submit(ctx, o.child.Above(), engine.Op{Lane: o.child.Cluster, Alone: true, Plan: o.plan})
	if errors.Is(err, ledger.ErrUnknownPool) { // of the parent
		return fmt.Errorf("pool %s, above pool %s, is not in the ledger", o.child.Above(), r.id)
	}
	if err == nil && !o.lacks {
		r.engine.Metrics.Released.Inc()
	}
	return err
}
