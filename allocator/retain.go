package allocator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Retain makes the bound block of a claim a retained one, until the caller releases it. until is
// the end of its lease, when the caller should do so; zero: it has none. A block that is
// retained already keeps its lease. ok is false if the claim has no block.
func (rt Retained) Retain(ctx context.Context, id ledger.ClaimID, until time.Time) (b ledger.Block, ok bool, err error) {
	return rt.amend(ctx, id, func(h *store.Holding) {
		if h.State == ledger.Bound || h.State == ledger.Reserved {
			h.State, h.Until = ledger.Retained, store.Stamped(until)
		}
	})
}

// Promise notes that a CREATE is answered with a retained block. The block stays retained, with
// its lease. It becomes Shared, and BoundAt the time of the answer, so that it is not freed while
// the CREATE may still succeed. [Retained.Reuse] then gives it to the claim.
//
// ErrShared: another CREATE was answered with it less than grace ago, and may still succeed.
// ErrChanged: it is not retained any more.
func (rt Retained) Promise(ctx context.Context, b ledger.Block, grace time.Duration) (ledger.Block, error) {
	var refusal error
	promised, ok, err := rt.amend(ctx, b.Holder.Claim, func(h *store.Holding) {
		now := store.Stamped(rt.a.engine.Hooks.Now())
		switch {
		case h.State != ledger.Retained:
			refusal = ledger.ErrChanged
		case h.Shared && now.Sub(h.BoundAt) < grace:
			refusal = ledger.ErrShared
		default:
			h.Since = cmp.Or(h.Since, h.BoundAt)
			h.Shared, h.BoundAt, refusal = true, now, nil
		}
	})
	switch {
	case err != nil:
		return ledger.Block{}, err
	case !ok || promised.Prefix != b.Prefix:
		return ledger.Block{}, ledger.ErrChanged
	}
	return promised, refusal
}

// Successor is a claim that gets the retained block of a former claim of its name.
type Successor struct {
	Holder ledger.Holder
	// Policy is its reclaim policy; empty: that of the former claim.
	Policy ledger.ReclaimPolicy
	// Answered is when its CREATE was answered with the block, to the second. Zero: it was not.
	Answered time.Time
}

// Reuse gives a retained block to a later claim of the same workspace, namespace and name, in one
// transaction. The block is bound then, has no lease, and was never free in between. Limits count it
// already, and do not apply.
//
// Reuse is idempotent: it returns the block to a successor that has it already. ErrChanged: the block
// is not as given, or the successor has another one. ErrInvalid: the names differ, or the block is not
// retained.
func (rt Retained) Reuse(ctx context.Context, b ledger.Block, to Successor) (ledger.Block, error) {
	if err := to.check(b); err != nil {
		return ledger.Block{}, err
	}
	r, ok, err := rt.a.store.RecordAt(ctx, b.Space, b.Prefix)
	if err != nil {
		return ledger.Block{}, err
	}
	if !ok || r.Revision != b.Revision || !r.Of(b.Holder.Claim) {
		return rt.reused(ctx, b, to)
	}
	h, former := *r.Held, r.Block()
	h.Claim, h.Policy, h.State, h.Until = to.Holder.Claim, cmp.Or(to.Policy, h.Policy), ledger.Bound, time.Time{}
	h.Since, h.Adopted = time.Time{}, false
	switch {
	case !h.Shared:
		h.BoundAt = store.Stamped(rt.a.engine.Hooks.Now())
	case sameSecond(h.BoundAt, to.Answered):
		h.Shared = false
	}
	r.Held = &h
	parting := rt.a.terms.farewellAt(former, ledger.CauseSuperseded, h.BoundAt)
	done, err := rt.a.engine.Change(ctx, b, engine.Op{Lane: b.Holder.Tenant(), Plan: handOver(b, r, parting)})
	if errors.Is(err, ledger.ErrChanged) || errors.Is(err, errBound) {
		return rt.reused(ctx, b, to)
	}
	if err != nil {
		return ledger.Block{}, err
	}
	return done.Block, nil
}

func (s Successor) check(b ledger.Block) error {
	if err := ledger.CheckID("claim", s.Holder.Claim); err != nil {
		return err
	}
	former := b.Holder
	former.Claim = s.Holder.Claim
	if b.State != ledger.Retained || former != s.Holder || b.Holder.Claim == s.Holder.Claim {
		return fmt.Errorf("%w: %s is %s for %s/%s, and %s/%s cannot take it over", ledger.ErrInvalid, b.Prefix, b.State,
			b.Holder.Namespace, b.Holder.Name, s.Holder.Namespace, s.Holder.Name)
	}
	return nil
}

// reused is the block, if the successor has it already.
func (rt Retained) reused(ctx context.Context, b ledger.Block, to Successor) (ledger.Block, error) {
	own, ok, err := rt.a.Lookup(ctx, to.Holder.Claim)
	if err != nil {
		return ledger.Block{}, err
	}
	if !ok || own.Space != b.Space || own.Prefix != b.Prefix {
		return ledger.Block{}, ledger.ErrChanged
	}
	return own, nil
}
