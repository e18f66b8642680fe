package allocator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Derived is the Allocator's view of the pools that the system makes: derived pools, which are carved for a class and a
// scope, and the address spaces of pools. It is safe for concurrent use.
type Derived struct{ a *Allocator }

// Derived returns the operations on the pools that the system makes.
func (a *Allocator) Derived() Derived { return Derived{a} }

// Provision returns the derived pool that p.Derived describes. If that pool does not exist yet, Provision carves it
// from req.Pool. If several callers want it at the same time, one of them makes it, and all get the same pool.
//
// Provision sets the ID of the pool, and the holder of the pool's block: the holder's claim ID is the pool's ID, and
// its workspace and name are those of p. If p.Derived has a Holder, the pool is held from the start. excluded returns
// the exclusions for the CIDR of the pool; it is called with a lock held. If excluded is nil, there are none. The
// exclusions of p are ignored.
//
// A new pool is trusted. So while published pools below req.Pool may be lost, req.Pool has to be frozen.
//
// Refusals are those of Carve, and *ReleasingError if the pool is being released.
func (d Derived) Provision(
	ctx context.Context, req ledger.Request, p ledger.Pool, excluded func(cidr netip.Prefix) []netip.Prefix,
) (ledger.Pool, error) {
	if p.Derived == nil || p.Derived.Class == "" {
		return ledger.Pool{}, fmt.Errorf("%w: pool %s has no class that it is derived for", ledger.ErrInvalid, p.Name)
	}
	p.ID = p.Derived.ID()
	req.Holder = ledger.Holder{Claim: ledger.ClaimID(p.ID), Cluster: cmp.Or(p.Derived.Workspace, p.Cluster), Name: p.Name}
	if err := errors.Join(checkRequest(req), ledger.CheckID("cluster", p.Cluster)); err != nil {
		return ledger.Pool{}, err
	}
	made := *p.Derived
	made.HeldSince = time.Time{}
	if made.Holder.Claim != "" {
		made.HeldSince = store.Stamped(d.a.engine.Hooks.Now())
	}
	p.Derived, p.Frozen, p.Closing = &made, false, ledger.Closing{}
	for {
		there, ok := d.a.Pools().Get(p.ID)
		var err error
		if ok { // by memory, which may be that of a former writer
			err = d.a.InOffice(ctx)
		} else {
			c := carving{Allocator: d.a, req: wanted{Request: req}, child: p, excluded: excluded}
			there, err = c.run(ctx)
		}
		if err == nil && (there.Closed() || there.State == ledger.PoolDraining && there.Kept()) {
			return ledger.Pool{}, &ledger.ReleasingError{Pool: p.ID}
		}
		if err != nil || !d.goes(ctx, there) {
			return there, err
		}
	}
}

// goes retires a pool that drains and is empty, and reports whether the pool is gone. Another caller has drained the
// pool to retire it.
func (d Derived) goes(ctx context.Context, p ledger.Pool) bool {
	return p.State == ledger.PoolDraining && d.a.Pools().Retire(ctx, p.ID) == nil
}

// Hold lets a claim hold a derived pool, so that the pool is not retired. It returns the pool. If the claim holds the
// pool already, Hold changes nothing.
//
// Refusals are *HeldError if another claim holds the pool, ErrUnknownPool, and *ReleasingError if the pool is closed or
// drains.
func (d Derived) Hold(ctx context.Context, id ledger.PoolID, by ledger.Holder) (ledger.Pool, error) {
	if err := ledger.CheckID("claim", by.Claim); err != nil {
		return ledger.Pool{}, err
	}
	return d.edited(ctx, edit{}, id, func(p ledger.Pool) error {
		switch {
		case p.Closed(), p.State == ledger.PoolDraining:
			return &ledger.ReleasingError{Pool: id}
		case p.Derived.Holder.Claim != "" && p.Derived.Holder.Claim != by.Claim:
			return &ledger.HeldError{Pool: id, By: p.Derived.Holder}
		}
		return nil
	}, func(p *ledger.Pool) {
		if p.Derived.Holder != by {
			p.Derived = p.Derived.HeldBy(by, store.Stamped(d.a.engine.Hooks.Now()))
		}
	})
}

// errNotHeld says that the claim does not hold the pool.
var errNotHeld = errors.New("the claim does not hold the pool")

// Hand passes a held pool to another holder of the same name, for example to the same claim under another ID. ok is
// also true if the new holder has the pool already. ok is false if neither the former nor the new holder has it.
func (d Derived) Hand(
	ctx context.Context, id ledger.PoolID, from ledger.ClaimID, to ledger.Holder,
) (ok bool, err error) {
	if err := errors.Join(ledger.CheckID("holder", from), ledger.CheckID("claim", to.Claim)); err != nil {
		return false, err
	}
	_, err = d.edited(ctx, edit{}, id, func(p ledger.Pool) error {
		if now := p.Derived.Holder.Claim; now != from && now != to.Claim {
			return errNotHeld
		}
		return nil
	}, func(p *ledger.Pool) {
		if p.Derived.Holder != to {
			p.Derived = p.Derived.HeldBy(to, store.Stamped(d.a.engine.Hooks.Now()))
		}
	})
	if errors.Is(err, errNotHeld) || errors.Is(err, ledger.ErrUnknownPool) {
		return false, nil
	}
	return err == nil, err
}

// Drop ends the hold of a claim on a pool, and opens the pool if it is closed. If the claim does not hold the pool,
// Drop does nothing. since is the HeldSince of the hold to end; zero: any hold. ErrChanged: the claim has another hold
// on the pool now.
func (d Derived) Drop(ctx context.Context, id ledger.PoolID, by ledger.ClaimID, since time.Time) error {
	_, err := d.edited(ctx, edit{}, id, func(p ledger.Pool) error {
		switch of := p.Derived; {
		case of.Holder.Claim != by:
			return errNotHeld
		case !since.IsZero() && !of.HeldSince.Equal(since):
			return fmt.Errorf("%w: %s holds the pool since %s", ledger.ErrChanged, by, of.HeldSince)
		}
		return nil
	}, func(p *ledger.Pool) {
		p.Derived, p.Closing = p.Derived.HeldBy(ledger.Holder{}, time.Time{}), ledger.Closing{}
	})
	if errors.Is(err, errNotHeld) || errors.Is(err, ledger.ErrUnknownPool) {
		return nil
	}
	return err
}

// Begin closes a derived pool, so that no block is bound in it until the pool is retired, or Reopen opens it. by is the
// ID of the claim that holds the pool; empty: no claim holds it. Neither the pool nor its address spaces may have a
// child, or a block with a holder. until is a time by which the DELETE of the claim has succeeded or failed. A second
// Begin sets another time. The result first reports whether the pool was open before.
//
// The ledger does not record that the pool is closed. A transaction only confirms that this process is the writer. Then
// the closing is in the memory of this process alone, and the next process finds the pool open.
//
// Refusals are ErrPoolInUse, ErrUnknownPool, and ErrChanged if the claim does not hold the pool.
func (d Derived) Begin(
	ctx context.Context, id ledger.PoolID, by ledger.ClaimID, until time.Time,
) (first bool, err error) {
	_, err = d.edited(ctx, edit{idle: true}, id, func(p ledger.Pool) error {
		if p.Derived.Holder.Claim != by {
			return fmt.Errorf("%w: claim %s does not hold the pool", ledger.ErrChanged, by)
		}
		first = !p.Closed()
		return nil
	}, func(p *ledger.Pool) { p.Closing = ledger.Closing{Until: until, By: by} })
	return first && err == nil, err
}

// Confirm confirms that a pool is still closed until this time, that the pool is empty, and that this process is still
// the writer. ErrChanged: the pool is open, or closed until another time. ErrPoolInUse: a block was adopted in the
// pool.
func (d Derived) Confirm(ctx context.Context, id ledger.PoolID, until time.Time) error {
	_, err := d.edited(ctx, edit{idle: true}, id, closedUntil(until), func(*ledger.Pool) {})
	return err
}

// Reopen opens a pool that Begin has closed until this time. Claims that wait for room in the pool are served again.
// ErrChanged: Begin was called again meanwhile. If the pool is open, Reopen does nothing.
func (d Derived) Reopen(ctx context.Context, id ledger.PoolID, until time.Time) error {
	_, err := d.edited(ctx, edit{}, id, func(p ledger.Pool) error {
		if !p.Closed() {
			return nil
		}
		return closedUntil(until)(p)
	}, func(p *ledger.Pool) { p.Closing = ledger.Closing{} })
	return err
}

// closedUntil returns a check that refuses a pool unless it is closed until that time.
func closedUntil(until time.Time) func(ledger.Pool) error {
	return func(p ledger.Pool) error {
		if !p.Closing.Until.Equal(until) {
			return fmt.Errorf("%w: it is closed until %s, not %s", ledger.ErrChanged, p.Closing.Until, until)
		}
		return nil
	}
}

// edited edits a derived pool, unless check refuses it.
func (d Derived) edited(
	ctx context.Context, e edit, id ledger.PoolID, check func(ledger.Pool) error, change func(*ledger.Pool),
) (ledger.Pool, error) {
	if !ledger.IsDerived(id) {
		return ledger.Pool{}, fmt.Errorf("%w: pool %s is not derived", ledger.ErrInvalid, id)
	}
	p, err := d.a.engine.Known(ctx, id)
	if err != nil {
		return ledger.Pool{}, err
	}
	e.pool, e.change, e.check = p, change, func(p ledger.Pool) error {
		if p.Derived == nil {
			return ledger.ErrUnknownPool
		}
		return check(p)
	}
	done, err := d.a.engine.Submit(ctx, id, engine.Op{Lane: p.Cluster, Alone: true, Plan: e.plan})
	return done.Pool, err
}

// Held returns the pool that a claim holds, as of memory; ok is false if there is none.
func (d Derived) Held(by ledger.ClaimID) (p ledger.Pool, ok bool) {
	for _, id := range d.a.table.HeldBy(by) {
		if p, ok = d.a.Pools().Get(id); ok && p.Derived != nil && p.Derived.Holder.Claim == by {
			return p, true
		}
	}
	return ledger.Pool{}, false
}

// Named lists the derived pools of a workspace that have this name, as of memory. Its cost does not grow with the
// number of other pools.
func (d Derived) Named(c ledger.ClusterName, name string) []ledger.PoolID {
	return d.a.table.Named(c, name)
}

// Below lists the derived pools and the address spaces below a pool, at any depth, as of memory. Each comes before the
// pool above it.
func (d Derived) Below(id ledger.PoolID) (below []ledger.Pool) {
	for _, child := range d.a.table.Below(id) {
		below = append(below, d.Below(child)...)
		if p, ok := d.a.Pools().Get(child); ok && p.Derived != nil {
			below = append(below, p)
		}
	}
	return below
}

// All yields the derived pools and the address spaces in memory, in no order.
func (d Derived) All() iter.Seq[ledger.Pool] {
	return func(yield func(ledger.Pool) bool) {
		for p := range d.a.Pools().All() {
			if p.Derived != nil && !yield(p) {
				return
			}
		}
	}
}
