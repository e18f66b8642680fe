package derived

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

// The life of a pool that the system makes. Step moves it along: for a CREATE, a sweep, and an event of its IPPool.
//
//	CREATE   ┌──────┐  nobody is inside  ┌────────────────────┐ by is gone  ┌──────────┐ nothing cools
//	────────▶│ open │ ──────────────────▶│ closing(until, by) │ ──────────▶ │ draining │ ─────────────▶ gone
//	         └──────┘ ◀──────────────────└────────────────────┘             └──────────┘
//	                   by is there after until, or the leader changes
//
//	open      its IPPool is there, or is created
//	closing   nothing is bound in it, and its IPPool goes. It was closed for the DELETE of by, the claim that holds it,
//	          which has succeeded or failed at until; without by, as nobody uses it. The leader's memory alone has it
//	draining  the ledger ends the cooldowns in it, and gives it to nobody
//	gone      the ledger has it no more. An IPPool that is left over is deleted when it is seen
//
// A new leader finds a pool open that was closing, without its IPPool. It asks for the claim: if that is there, it
// publishes the pool again. If the claim is Terminating, it closes the pool again, and if the claim was seen to go, it
// retires the pool. If nobody saw that, the sweep settles it.

// stage is where a pool is in its life.
type stage int

const (
	gone stage = iota
	open
	closing
	draining
)

// stageOf returns where a pool is. One that is closed is, also while it drains.
func stageOf(p ledger.Pool, known bool) stage {
	switch {
	case !known:
		return gone
	case p.Closed():
		return closing
	case p.State == ledger.PoolDraining:
		return draining
	}
	return open
}

// presence says whether the claim that holds a pool is there.
type presence int

const (
	unknown  presence = iota // or it was not asked for
	there                    // it is there
	leaving                  // it is Terminating: its DELETE has succeeded
	missing                  // no server shows it, and its release is not settled
	released                 // it is gone, and holds the pool no more
)

// facts are what decides what becomes of a pool. The caller of step knows the first three.
type facts struct {
	shown  bool // the cache shows its IPPool, or none can be made
	old    bool // nobody uses it, for long enough
	wanted bool // a CREATE is about to bind in it

	stage  stage
	held   bool     // by a claim, stored or not
	shared bool     // by all workspaces
	used   bool     // somebody has a block in it
	over   bool     // the DELETE that it was closed for has succeeded or failed
	holder presence // of the claim that holds it, or did when it was asked for
}

// move is what becomes of a pool next.
type move int

const (
	rests     move = iota // nothing: it is as it should be
	waits                 // nothing yet
	publishes             // its IPPool is created
	closes                // for the claim that holds it
	retires               // by way of closing and draining
	reopens               // and is published
)

// next says what becomes of a pool. It is pure.
func next(f facts) move {
	switch f.stage {
	case gone, draining: // which goes by itself when nobody holds it
		return rests
	case closing:
		return ofClosed(f)
	case open:
	}
	switch {
	case f.old:
		return retires
	case f.shown:
		return rests
	case f.holder == released && !f.used:
		return retires // as it would have been where it was closed
	case f.holder == leaving && !f.used:
		return closes
	case f.holder == missing && !f.wanted:
		return waits
	}
	return publishes
}

// ofClosed says what becomes of a pool that is closed. One that all workspaces share is opened for a CREATE, if the
// claim is there: its workspace could keep the pool closed to all others, by a finalizer or by a DELETE that always
// fails. When the claim goes, the pool stays for the blocks inside.
func ofClosed(f facts) move {
	switch {
	case !f.held:
		return retires
	case f.wanted && f.shared, f.over && f.holder == there:
		return reopens
	}
	return waits // also for a claim that something else holds up: nothing is to be made inside
}

// step moves a pool along its life, as far as it goes now, and says how.
func (c *Closer) step(ctx context.Context, p ledger.Pool, f facts) (move, error) {
	until := p.Closing.Until // before the claim is asked for: another caller may close the pool again since
	f, p, err := c.learn(ctx, p, f)
	if err != nil {
		return waits, err
	}
	does := next(f)
	switch does {
	case rests, waits:
	case publishes:
		err = c.publish(ctx, p)
	case closes:
		if err = c.RetireBelow(ctx, p.ID); err == nil {
			_, err = c.begin(ctx, p, p.Derived.Holder.Claim, c.Clock.Now())
		}
	case retires:
		err = c.retires(ctx, p, f.stage)
	case reopens:
		if err = c.reopen(ctx, p, until); err == nil && !f.wanted { // else the CREATE publishes it
			log.FromContext(ctx).Info("pool opened again, as its claim was not deleted", "cluster", p.Cluster, "pool", p.Name)
			err = c.publish(ctx, p)
		}
	}
	if errors.Is(err, ledger.ErrPoolInUse) || errors.Is(err, ledger.ErrChanged) {
		return waits, nil // somebody came meanwhile
	}
	return does, err
}

func (c *Closer) retires(ctx context.Context, p ledger.Pool, at stage) error {
	if at == closing {
		return c.RetireClosed(ctx, p.ID, "")
	}
	return c.Replace(ctx, p)
}

// learn completes the facts of a pool. To ask for a claim that is gone ends its hold, so it returns the pool as it is
// then.
func (c *Closer) learn(ctx context.Context, p ledger.Pool, f facts) (facts, ledger.Pool, error) {
	was := stageOf(p, true)
	f.over = !c.Clock.Now().Before(p.Closing.Until)
	if c.doubted(p, was, f) {
		var err error
		if f.holder, err = c.ask(ctx, p, was, f.over); err != nil {
			return f, p, err
		}
	}
	now, known := c.Ledger.Pools.Get(p.ID)
	if known && now.RegisteredAt.Equal(p.RegisteredAt) { // else it has gone, and another one was made
		p, f.stage = now, stageOf(now, true)
	}
	f.held, f.shared = p.Derived.Holder.Claim != "", p.Derived.Workspace == ""
	f.used = c.Ledger.Pools.InUse(p.ID)
	return f, p, nil
}

// doubted reports whether the claim that holds a pool has to be asked for, as another process may have closed the pool
// for its DELETE.
func (c *Closer) doubted(p ledger.Pool, at stage, f facts) bool {
	by := p.Derived.Holder.Claim
	switch {
	case by == "":
		return false
	case at != open:
		return true
	}
	return !f.shown && p.RegisteredAt.Before(c.Since) && !c.published.reopened(p.ID, c.Clock.Now())
}

// ask asks for the claim that holds a pool, and settles its release, if it is gone. Nothing is in a pool that is not
// open, and the transaction that retires it compares that. The release of any other one is settled only if its deletion
// was seen.
func (c *Closer) ask(ctx context.Context, p ledger.Pool, at stage, over bool) (presence, error) {
	by, settle := p.Derived.Holder, c.Releases.Settle
	if at == open {
		settle = c.Releases.SettleWitnessed
	}
	if _, err := settle(ctx, by); err != nil {
		return unknown, fmt.Errorf("look for the claim that holds pool %s: %w", p.Name, err)
	}
	if now, known := c.Ledger.Pools.Get(p.ID); !known || now.Derived.Holder.Claim != by.Claim {
		return released, nil
	}
	if at == closing && !over {
		return unknown, nil
	}
	answer, err := c.Oracle.Holder(ctx, by)
	switch {
	case err != nil:
		return unknown, fmt.Errorf("look for the claim that holds pool %s: %w", p.Name, err)
	case answer.Object != nil && live.Is(answer.Object, by) && answer.Leaving:
		return leaving, nil
	case answer.Object != nil && live.Is(answer.Object, by):
		return there, nil
	case answer.Verdict == live.Gone:
		return missing, nil
	}
	return unknown, nil // no server can tell
}

// Publish creates the IPPool of a derived pool for a CREATE, unless it is there. It fails with ledger.ErrUnknownPool or
// *ledger.ReleasingError if the pool is gone, or closed, by now.
func (c *Closer) Publish(ctx context.Context, p ledger.Pool) error {
	if shown, err := c.sees(ctx, p); shown || err != nil {
		return err
	}
	if now, known := c.Ledger.Pools.Get(p.ID); known {
		does, err := c.step(ctx, now, facts{wanted: true})
		if err != nil || does == publishes {
			return err
		}
	}
	if _, known := c.Ledger.Pools.Get(p.ID); known {
		return &ledger.ReleasingError{Pool: p.ID}
	}
	return fmt.Errorf("publish pool %s: %w", p.Name, ledger.ErrUnknownPool)
}

// Complete serves a CREATE that has found a pool closed, or draining. It retires the pool if the claim is gone for
// which it was closed. ready reports that the CREATE may try again: the pool is gone, or open.
func (c *Closer) Complete(ctx context.Context, id ledger.PoolID) (ready bool, err error) {
	p, known := c.Ledger.Pools.Get(id)
	if !known {
		return true, nil
	}
	if _, err := c.step(ctx, p, facts{wanted: true, shown: true}); err != nil {
		return false, err
	}
	p, known = c.Ledger.Pools.Get(id)
	at := stageOf(p, known)
	return at == gone || at == open, nil
}
