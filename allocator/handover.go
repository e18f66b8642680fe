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

// Successor is a claim that gets the block of another holder of its name.
type Successor struct {
	Holder ledger.Holder
	// Policy is its reclaim policy; empty: that of the former holder.
	Policy ledger.ReclaimPolicy
}

// HandOver gives a bound or retained block to another holder of the same workspace, namespace and name, in one
// transaction: to a later claim, or to the same claim under another ID. The block is bound then, has no lease, and
// was never free in between. Limits count it already, and do not apply.
//
// HandOver is idempotent: it returns the block to a successor that has it already. ErrChanged: the block is not as
// given, or the successor has another block. ErrInvalid: the names differ, or the block cools. ErrPoolInUse: a child
// pool holds the block.
func (rt Retained) HandOver(ctx context.Context, b ledger.Block, to Successor) (ledger.Block, error) {
	if err := to.check(b); err != nil {
		return ledger.Block{}, err
	}
	r, ok, err := rt.a.store.RecordAt(ctx, b.Space, b.Prefix)
	if err != nil {
		return ledger.Block{}, err
	}
	if !ok || r.Revision != b.Revision || !r.Of(b.Holder.Claim) {
		return rt.handed(ctx, b, to)
	}
	h, former := *r.Held, r.Block()
	h.Claim, h.Policy, h.State, h.Until = to.Holder.Claim, cmp.Or(to.Policy, h.Policy), ledger.Bound, time.Time{}
	h.Since, h.Adopted, h.BoundAt = time.Time{}, false, store.Stamped(rt.a.engine.Hooks.Now())
	r.Held = &h
	parting := rt.a.terms.farewellAt(former, ledger.CauseSuperseded, h.BoundAt)
	done, err := rt.a.engine.Change(ctx, b, engine.Op{Lane: b.Holder.Tenant(), Plan: handOver(b, r, parting)})
	if errors.Is(err, ledger.ErrChanged) || errors.Is(err, errBound) {
		return rt.handed(ctx, b, to)
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
	if b.State != ledger.Retained && b.State != ledger.Bound || former != s.Holder || b.Holder.Claim == s.Holder.Claim {
		return fmt.Errorf("%w: %s is %s for %s/%s, and %s/%s cannot take it over", ledger.ErrInvalid, b.Prefix, b.State,
			b.Holder.Namespace, b.Holder.Name, s.Holder.Namespace, s.Holder.Name)
	}
	return nil
}

// handed returns the block, if the successor has the block already.
func (rt Retained) handed(ctx context.Context, b ledger.Block, to Successor) (ledger.Block, error) {
	own, ok, err := rt.a.Lookup(ctx, to.Holder.Claim)
	if err != nil {
		return ledger.Block{}, err
	}
	if !ok || own.Space != b.Space || own.Prefix != b.Prefix {
		return ledger.Block{}, ledger.ErrChanged
	}
	return own, nil
}

// handOver returns the plan of a HandOver: the record next, with the claim that gets the block, replaces the record of
// the block old. parting records the tenure of the former holder.
func handOver(old ledger.Block, next store.Record, parting farewell) func(space.View) (engine.Plan, error) {
	value := next.Encode()
	return func(v space.View) (engine.Plan, error) {
		if err := present(v, old); err != nil {
			return engine.Plan{}, err
		}
		changes := append(store.EndTenure(parting.record),
			v.Keys.PutClaim(next.Held.Claim, old.Prefix).At(0, errBound),
			v.Keys.PutBlock(next, value).At(old.Revision, ledger.ErrChanged),
			v.Keys.RemoveClaim(old.Holder.Claim))
		return engine.Plan{Changes: append(changes, childless(v, old)...), Answer: engine.Answer{Block: next.Block()}}, nil
	}
}
