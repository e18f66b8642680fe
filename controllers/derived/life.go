package derived

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

// This is the life of a derived pool. [Closer.step] moves the pool along: for a CREATE, a sweep, or an event of its
// IPPool.
//
//	CREATE   ┌──────┐  nobody is inside  ┌────────────────────┐ by is gone  ┌──────────┐ nothing cools
//	────────▶│ open │ ──────────────────▶│ closing(until, by) │ ──────────▶ │ draining │ ─────────────▶ gone
//	         └──────┘ ◀──────────────────└────────────────────┘             └──────────┘
//	                   by is there after until, or the leader changes
//
//	open      its IPPool is there, or is created
//	closing   no block is bound in it, and its IPPool is deleted. It was closed for the DELETE of by, the claim that
//	          holds it; at until, that DELETE has succeeded or failed. Without by, it was closed because nobody uses it.
//	          Only the leader's memory knows that a pool is closing
//	draining  nobody gets it, or a block of it. The ledger ends the cooldowns in it
//	gone      the ledger has it no more. An IPPool that is left over is deleted when it is seen
//
// After a failover, a pool that was closing is open, without its IPPool. The new leader asks for the claim. If the
// claim is there, it publishes the pool again. If the claim is Terminating, it closes the pool again. If the claim was
// seen to go, it retires the pool. If nobody saw the claim go, it leaves the pool to package sweep.

// stage is where a pool is in its life.
type stage int

const (
	gone stage = iota
	open
	closing
	draining
)

// stageOf returns the stage of a pool. A closed pool that drains is still closing.
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
	unknown  presence = iota // no server can tell, or none was asked
	there                    // it is there
	leaving                  // it is Terminating: its DELETE has succeeded
	missing                  // no server shows it, and its release is not settled
	released                 // it is gone, and holds the pool no more
)

// facts are all that next considers about a pool. The caller of step gives the first three.
type facts struct {
	shown  bool // the cache shows its IPPool, or none can be made
	old    bool // nobody uses it, for long enough
	wanted bool // a CREATE is about to bind in it

	stage  stage
	held   bool     // a claim holds it, stored or not
	shared bool     // all workspaces share it
	used   bool     // somebody has a block in it
	over   bool     // the DELETE that it was closed for has succeeded or failed
	holder presence // of the claim that holds it, or held it until the servers were asked
}

// move is the next change of a pool.
type move int

const (
	rests     move = iota // nothing: it is as it should be
	waits                 // nothing yet
	publishes             // its IPPool is created
	closes                // it is closed for the claim that holds it
	retires               // it is closed, and drains
	reopens               // it is opened again, and published
)

// next returns the next move of a pool. It is pure.
func next(f facts) move {
	switch f.stage {
	case gone, draining: // a draining pool goes by itself when nobody has a block of it
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
		return retires // as if it had been closed for the DELETE of the claim
	case f.holder == leaving && !f.used:
		return closes
	case f.holder == missing && !f.wanted:
		return waits
	}
	return publishes
}

// ofClosed returns the next move of a closed pool. A CREATE opens a pool that all workspaces share, as long as a claim
// holds it. If CREATEs could not, the claim's workspace could keep the pool closed to all others, by a finalizer or by
// DELETEs that always fail. When the claim goes, the pool stays for the blocks inside.
func ofClosed(f facts) move {
	switch {
	case !f.held:
		return retires
	case f.wanted && f.shared, f.over && f.holder == there:
		return reopens
	}
	return waits // also while a finalizer keeps the claim: no block is to be bound inside
}

// step makes the next move of a pool, and returns it. If the pool is used meanwhile, it returns waits.
func (c *Closer) step(ctx context.Context, p ledger.Pool, f facts) (move, error) {
	until := p.Closing.Until // read first: while the claim is asked for, another caller may close the pool again
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
		return waits, nil // another claim uses the pool meanwhile
	}
	return does, err
}

func (c *Closer) retires(ctx context.Context, p ledger.Pool, at stage) error {
	if at == closing {
		return c.RetireClosed(ctx, p.ID, "")
	}
	return c.Replace(ctx, p)
}

// learn completes the facts of a pool. If the claim that holds the pool is gone, learn ends the hold. So it returns the
// pool as it is afterwards.
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
	if known && now.RegisteredAt.Equal(p.RegisteredAt) { // else it was retired, and another pool was made
		p, f.stage = now, stageOf(now, true)
	}
	f.held, f.shared = p.Derived.Holder.Claim != "", p.Derived.Workspace == ""
	f.used = c.Ledger.Pools.InUse(p.ID)
	return f, p, nil
}

// doubted reports whether the claim that holds a pool has to be asked for: the pool is not open, or a former leader may
// have closed it for the claim's DELETE.
func (c *Closer) doubted(p ledger.Pool, at stage, f facts) bool {
	by := p.Derived.Holder.Claim
	switch {
	case by == "":
		return false
	case at != open:
		return true
	}
	return !f.shown && p.RegisteredAt.Before(c.Since) && !c.published.lostLately(p.ID, c.Clock.Now())
}

// ask asks for the claim that holds a pool, and settles its release if it is gone. A pool that is not open is empty:
// the transaction that retires it fails otherwise. If the pool is open, the release is settled only if the claim's
// deletion was seen.
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

// Publish creates the IPPool of a derived pool for a CREATE, unless it is there. It fails with ledger.ErrUnknownPool if
// the pool is gone meanwhile, and with *ledger.ReleasingError if the pool is closed.
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

// Complete serves a CREATE that has found a pool closed, or draining. If the claim that the pool was closed for is
// gone, it retires the pool. ready reports whether the CREATE may try again: the pool is gone, or open.
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
