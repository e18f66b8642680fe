package allocator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Release frees the block of a claim. One transaction deletes the block and the claim's key, or
// with Options.Cooldown the block begins to cool. If the claim has no block, Release does
// nothing.
//
// It does not check that the claim is gone: the caller must have confirmed that. The block of a child pool goes only
// with the pool: while the pool is registered, Release refuses with ErrPoolInUse.
func (a *Allocator) Release(ctx context.Context, id ledger.ClaimID) error {
	var last ledger.Block
	for {
		b, ok, err := a.Lookup(ctx, id)
		if err != nil {
			return err
		}
		if !ok {
			a.Waits().Withdraw(id)
			return nil
		}
		if err := a.ReleaseFor(ctx, b, ledger.CauseReleased); !errors.Is(err, ledger.ErrChanged) || b == last {
			return err
		}
		last = b
	}
}

// ReleaseFor frees a block if it is still as given: same holder, same Revision. Otherwise it returns ErrChanged, also
// if the block is gone. The history keeps the cause. With CauseCreateFailed a bound block does not cool: nobody has
// used it. If it cooled when it was bound, it cools again until its old time.
func (a *Allocator) ReleaseFor(ctx context.Context, b ledger.Block, cause ledger.Cause) error {
	err := a.free(ctx, b, cause)
	if err == nil {
		a.engine.Metrics.Released.Inc()
		a.Waits().Withdraw(b.Holder.Claim)
	}
	return err
}

// free frees a block that one claim holds.
func (a *Allocator) free(ctx context.Context, b ledger.Block, cause ledger.Cause) error {
	f := free{block: b, farewell: a.terms.farewell(b, cause)}
	until, err := a.terms.cooldown(b, cause)
	if err != nil {
		return fmt.Errorf("cooldown of %s: %w", b.Prefix, err)
	}
	if !until.IsZero() {
		f.cool(until)
	}
	_, err = a.engine.Change(ctx, b, engine.Op{Lane: b.Holder.Tenant(), Plan: f.plan})
	return err
}

// amend changes the holding of a claim. ok is false if the claim has no block.
func (rt Retained) amend(
	ctx context.Context, id ledger.ClaimID, edit func(*store.Holding),
) (ledger.Block, bool, error) {
	var last int64
	for {
		r, ok, err := rt.a.store.RecordOf(ctx, id)
		if err != nil || !ok {
			return ledger.Block{}, false, err
		}
		h := *r.Held
		if h.State == ledger.Cooling {
			return ledger.Block{}, false, nil
		}
		edit(&h)
		old := r.Block()
		if h == *r.Held {
			return old, true, nil
		}
		r.Held = &h
		done, err := rt.a.engine.Change(ctx, old, engine.Op{Lane: old.Holder.Tenant(), Plan: amend(old, r)})
		if err == nil {
			return done.Block, true, nil
		}
		if !errors.Is(err, ledger.ErrChanged) || last == old.Revision {
			return ledger.Block{}, false, err
		}
		last = old.Revision
	}
}

// amend plans a change to the record of a block.
func amend(old ledger.Block, next store.Record) func(space.View) (engine.Plan, error) {
	value := next.Encode()
	return func(v space.View) (engine.Plan, error) {
		if err := present(v, old); err != nil {
			return engine.Plan{}, err
		}
		put := v.Keys.PutBlock(next, value).At(old.Revision, ledger.ErrChanged)
		return engine.Plan{Changes: []store.Change{put}, Answer: engine.Answer{Block: next.Block()}}, nil
	}
}

// present returns ErrGone if the pool of a block is not in memory, and ErrChanged if the block is not.
func present(v space.View, b ledger.Block) error {
	switch {
	case v.Pool(b.Pool) == nil:
		return engine.ErrGone
	case !v.Has(b.Prefix):
		return ledger.ErrChanged
	}
	return nil
}

// free plans a release.
type free struct {
	block    ledger.Block
	farewell farewell
	cooled   *store.Record // the block as it cools; nil: it is free at once
	value    string        // the cooled record, encoded by the caller, to save the writer's time
}

// cool lets the block cool, instead of being free at once. The block keeps the key of its claim, unless its holder is a
// derived pool, which may be made again elsewhere.
func (f *free) cool(until time.Time) {
	f.farewell = f.farewell.cooling(until)
	b := f.block
	id := b.Holder.Claim
	if ledger.IsDerived(id) {
		id = nobody()
	}
	f.cooled = &store.Record{Space: b.Space, Prefix: b.Prefix, Held: &store.Holding{
		Pool: b.Pool, Claim: id, Cluster: b.Holder.Cluster, Namespace: b.Holder.Namespace, Name: b.Holder.Name,
		Class: b.Class, Policy: b.Policy, State: ledger.Cooling, Slice: b.Slice, BoundAt: b.BoundAt, Until: until,
		Since: f.farewell.tenure.Until,
	}}
	f.value = f.cooled.Encode()
}

// forNobody lets no object get the cooling block back, not even its former holder.
func (f *free) forNobody() {
	f.cooled.Held.Claim = nobody()
	f.cooled.Held.Name = string(f.cooled.Held.Claim)
	f.value = f.cooled.Encode()
}

// nobody returns an ID for a cooling block. No object has that ID.
func nobody() ledger.ClaimID { return ledger.ClaimID("cooling." + rand.Text()) }

func (f free) plan(v space.View) (engine.Plan, error) {
	if err := present(v, f.block); err != nil {
		return engine.Plan{}, err
	}
	if v.Cooled(f.block.Prefix) != nil {
		return engine.Plan{}, ledger.ErrChanged
	}
	return engine.Plan{Changes: append(f.changes(v.Keys, ledger.ErrChanged), childless(v, f.block)...)}, nil
}

// childless compares that the holder of a block is no registered pool. A registered pool gives out the addresses of its
// block.
func childless(v space.View, b ledger.Block) []store.Change {
	if b.Holder.Namespace != "" {
		return nil
	}
	id := ledger.PoolID(b.Holder.Claim)
	held := fmt.Errorf("%w: the block is that of pool %s; retire that", ledger.ErrPoolInUse, id)
	return []store.Change{store.CheckKey(v.Keys.Pool(id)).At(0, held)}
}

// changes returns the changes that free the block, if the block has not changed since it was read. If it has changed,
// the call gets the error of the argument otherwise.
func (f free) changes(keys store.SpaceKeys, otherwise error) []store.Change {
	b, changes := f.block, store.EndTenure(f.farewell.record)
	if f.cooled == nil {
		return append(changes, keys.RemoveBlock(b.Prefix).At(b.Revision, otherwise), keys.RemoveClaim(b.Holder.Claim))
	}
	changes = append(changes, keys.PutBlock(*f.cooled, f.value).At(b.Revision, otherwise))
	if id := f.cooled.Held.Claim; id != b.Holder.Claim {
		changes = append(changes, keys.RemoveClaim(b.Holder.Claim), keys.PutClaim(id, b.Prefix))
	}
	return changes
}
