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

// Provision carves the pool that p.Derived describes from req.Pool, unless it is there. Of several callers one makes
// it, and all get it as it is. Provision sets the ID of the pool, and the holder of its block, which has that ID, and
// the cluster and the name of p. A pool with a Holder is held from the start. excluded returns the exclusions of the
// pool for its CIDR, and is called with a lock held; nil: it has none. Those of p count for nothing.
//
// A new pool is trusted: while others may have been lost that were published below a pool, that has to be frozen.
//
// Refusals are those of Carve, and *ReleasingError, also if the pool is there, and is being released.
func (d Derived) Provision(ctx context.Context, req ledger.Request, p ledger.Pool, excluded func(cidr netip.Prefix) []netip.Prefix) (ledger.Pool, error) {
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

// goes retires a pool that drains and is empty, and reports whether it is gone. Somebody was about to.
func (d Derived) goes(ctx context.Context, p ledger.Pool) bool {
	return p.State == ledger.PoolDraining && d.a.Pools().Retire(ctx, p.ID) == nil
}

// Hold lets a claim hold a derived pool, which is not retired then. It returns the pool as it is. A claim that holds
// the pool already changes nothing.
//
// Refusals are *HeldError, if another one holds it, ErrUnknownPool, and *ReleasingError, also for a pool that drains.
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

// errNotHeld: the claim does not hold the pool.
var errNotHeld = errors.New("the claim does not hold the pool")

// Hand gives the pool that from holds to another holder of its name: to the claim under another ID, for one. ok is true
// as well if it has been given before, and false if from does not hold it.
func (d Derived) Hand(ctx context.Context, id ledger.PoolID, from ledger.ClaimID, to ledger.Holder) (ok bool, err error) {
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

// Drop ends a hold, if the claim has it. A pool that is being released is opened again by that. since is the HeldSince
// of the hold; zero: of any. ErrChanged: the claim has dropped that one, and holds
// the pool again.
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

// Begin closes a derived pool that a claim holds if nothing is in it or its address spaces, neither a block with a
// holder nor a child: until is when the DELETE of the claim has succeeded or failed. Nothing is bound in the pool until
// it is retired, or opened by Reopen. A second Begin sets another time. first reports that the pool was open before.
//
// The ledger has no word of it: a transaction confirms that this process has the office, and its memory has the
// closing. The next process finds the pool open.
//
// by is empty for a pool that nobody holds. Refusals are ErrPoolInUse, ErrUnknownPool, and ErrChanged, if the claim
// does not hold the pool.
func (d Derived) Begin(ctx context.Context, id ledger.PoolID, by ledger.ClaimID, until time.Time) (first bool, err error) {
	_, err = d.edited(ctx, edit{idle: true}, id, func(p ledger.Pool) error {
		if p.Derived.Holder.Claim != by {
			return fmt.Errorf("%w: claim %s does not hold the pool", ledger.ErrChanged, by)
		}
		first = !p.Closed()
		return nil
	}, func(p *ledger.Pool) { p.Closing = ledger.Closing{Until: until, By: by} })
	return first && err == nil, err
}

// Confirm confirms that a pool is closed as Begin has closed it with that time, that nothing is in it, and that this
// process has the office still. ErrChanged: it is not closed so any more. ErrPoolInUse: something was adopted in it.
func (d Derived) Confirm(ctx context.Context, id ledger.PoolID, until time.Time) error {
	_, err := d.edited(ctx, edit{idle: true}, id, closedUntil(until), func(*ledger.Pool) {})
	return err
}

// Reopen ends what Begin has begun with that time. Claims that wait for room in the pool are served again. It fails
// with ErrChanged if Begin was called again since, and changes nothing of a pool that is open.
func (d Derived) Reopen(ctx context.Context, id ledger.PoolID, until time.Time) error {
	_, err := d.edited(ctx, edit{}, id, func(p ledger.Pool) error {
		if !p.Closed() {
			return nil
		}
		return closedUntil(until)(p)
	}, func(p *ledger.Pool) { p.Closing = ledger.Closing{} })
	return err
}

// closedUntil refuses a pool that is not closed until that time.
func closedUntil(until time.Time) func(ledger.Pool) error {
	return func(p ledger.Pool) error {
		if !p.Closing.Until.Equal(until) {
			return fmt.Errorf("%w: it is closed until %s, not %s", ledger.ErrChanged, p.Closing.Until, until)
		}
		return nil
	}
}

// edited edits a derived pool, unless check refuses it.
func (d Derived) edited(ctx context.Context, e edit, id ledger.PoolID, check func(ledger.Pool) error, change func(*ledger.Pool)) (ledger.Pool, error) {
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

// Named lists the derived pools of a workspace that have a name, as of memory. It costs the same however many others
// there are.
func (d Derived) Named(c ledger.ClusterName, name string) []ledger.PoolID {
	return d.a.table.Named(c, name)
}

// Below lists the derived pools below a pool, at any depth, and the address spaces there and of the pool, as of memory:
// each before the pool above it.
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
