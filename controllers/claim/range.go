package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
)

// A claim whose target is ScopeRange holds the pool that its class has for its scope. It has no block and no record:
// the record of the pool says who holds it.
//
//	CREATE ──▶ held by a new ID ──▶ status in the response, with the ID ──▶ stored

// rangeOf returns a pool as the block of the claim that holds it.
func rangeOf(pool ledger.Pool) ledger.Block {
	return ledger.Block{
		Prefix: pool.CIDR, Pool: pool.ID, Holder: pool.Derived.Holder, Class: pool.Derived.Class, State: ledger.Bound, BoundAt: pool.Derived.HeldSince,
	}
}

// hold lets the claim hold a pool, if no other claim does that is still there.
func (d *decision) hold(ctx context.Context, pool ledger.Pool) (ledger.Block, error) {
	held, err := pool, error(nil)
	by := pool.Derived.Holder
	switch {
	case !d.dry: // also if it was made so: a claim of this name may have been answered with it, stored, and deleted since
		held, err = d.Ledger.Derived.Hold(ctx, pool.ID, d.holder)
	case pool.Closed():
		err = &ledger.ReleasingError{Pool: pool.ID}
	case by.Claim != "" && by != d.holder:
		err = &ledger.HeldError{Pool: pool.ID, By: by}
	}
	if other, ok := errors.AsType[*ledger.HeldError](err); ok {
		err = d.contest(ctx, pool, other.By)
	}
	if err != nil {
		return ledger.Block{}, err
	}
	d.held = held
	d.waits.nowhere()
	return d.rangeOf(held), nil
}

// rangeOf returns a pool as the block of the claim, which holds it, or would hold it after a dry run.
func (d *decision) rangeOf(pool ledger.Pool) ledger.Block {
	block := rangeOf(pool)
	if d.dry && block.BoundAt.IsZero() {
		block.Holder, block.BoundAt = d.holder, d.clock.Now()
	}
	return block
}

// drop ends the hold of a range that began with this decision.
func (d *decision) drop(ctx context.Context) error {
	if d.held.ID == "" {
		return nil
	}
	err := d.Ledger.Derived.Drop(ctx, d.held.ID, d.holder.Claim, d.held.Derived.HeldSince)
	if errors.Is(err, ledger.ErrChanged) {
		return nil
	}
	return err
}

// contest returns why another claim keeps a pool, or errAgain if it does not hold that any more.
func (d *decision) contest(ctx context.Context, pool ledger.Pool, by ledger.Holder) error {
	if d.dry {
		return heldBy(pool, by, d.tenant())
	}
	if promise.Follows(ledger.Block{Holder: by}, d.holder) {
		succeeds, err := d.succeeds(ctx, by, pool.Derived.HeldSince)
		if err == nil && succeeds {
			if _, err = d.Ledger.Derived.Hand(ctx, pool.ID, by.Claim, d.holder); err == nil {
				d.Answers.Forget(by)
			}
			err = cmp.Or(err, errAgain)
		}
		if err != nil {
			return err
		}
	}
	settled, err := d.Releases.SettleWitnessed(ctx, by)
	if err != nil {
		return fmt.Errorf("look for the claim that holds range %s: %w", pool.CIDR, err)
	}
	if now, ok := d.Ledger.Pools.Get(pool.ID); !ok || now.Derived.Holder != by {
		return errAgain
	}
	if !settled {
		return &outcome.Fault{Message: "it cannot be known now whether another claim holds the range of this scope"}
	}
	d.waits.at(nil)
	d.waits.anyway()
	return heldBy(pool, by, d.tenant())
}

// heldBy refuses a claim whose range another one holds. That of another workspace is not named.
func heldBy(pool ledger.Pool, by ledger.Holder, from ledger.ClusterName) *outcome.Refusal {
	said := fmt.Sprintf("range %s is held by another claim, of another workspace: claim a Block inside it, or have that one deleted", pool.CIDR)
	if by.Tenant() == from {
		said = fmt.Sprintf("range %s is held by another claim, %s/%s: delete that one, or claim a Block inside the range", pool.CIDR, by.Namespace, by.Name)
	}
	return &outcome.Refusal{Reason: ipamv1alpha1.ReasonRangeHeld, Message: said}
}

// reconcileRange lets a claim hold its range, and shows that.
func (p *pass) reconcileRange(ctx context.Context) error {
	if held, ok := p.Ledger.Derived.Held(p.holder().Claim); ok && showsRange(p.claim, held) {
		p.memory.found(p.claim.UID)
		p.Answers.Forget(held.Derived.Holder) // it has no record
		p.waits.served()
		return nil
	}
	if err := p.confirmAlive(ctx); err != nil {
		return err
	}
	block, err := p.obtainRange(ctx)
	if err != nil {
		return p.report.unmet(ctx, err)
	}
	p.waits.served()
	p.report.bound = true
	poolRef, err := p.names.poolOf(block)
	if err != nil {
		return err
	}
	p.report.correct(block)
	succeeded(p.claim, block, poolRef, "")
	log.FromContext(ctx).Info("holds a range", "pool", poolRef.Name, "prefix", block.Prefix)
	return nil
}

// showsRange reports whether a claim shows the range that it holds, as it should.
func showsRange(claim *ipamv1alpha1.IPClaim, held ledger.Pool) bool {
	status := &claim.Status
	return status.Phase == ipamv1alpha1.ClaimBound && status.ObservedGeneration == claim.Generation && !outcome.Failing(status.Conditions) &&
		status.AllocatedCIDR == held.CIDR.String() && status.PoolRef != nil && status.PoolRef.Name == held.Name
}

// obtainRange lets the claim hold its range: the one that it shows, as long as the ledger has that.
func (p *pass) obtainRange(ctx context.Context) (ledger.Block, error) {
	if held, ok := p.Ledger.Derived.Held(p.holder().Claim); ok {
		return rangeOf(held), nil
	}
	shown, err := netip.ParsePrefix(p.claim.Status.AllocatedCIDR)
	if p.claim.Status.AllocatedCIDR == "" {
		return p.decision().place(ctx)
	}
	if err != nil {
		return ledger.Block{}, p.unbacked(ctx)
	}
	block, err := p.regainRange(ctx, shown)
	if _, refused := errors.AsType[*outcome.Refusal](err); refused {
		return block, p.unbacked(ctx)
	}
	return block, err
}

// regainRange lets the claim hold the range that it shows, and that is held under its name by another ID, or was given
// up. A refusal says why it cannot.
func (p *pass) regainRange(ctx context.Context, shown netip.Prefix) (ledger.Block, error) {
	d := p.decision()
	plan, err := d.plan(ctx)
	if err != nil {
		return ledger.Block{}, err
	}
	return begun(func() (ledger.Block, error) {
		pool, ok := p.Ledger.Pools.Get(plan.Chain[len(plan.Chain)-1].Derived.ID())
		if !ok || pool.CIDR != shown {
			return ledger.Block{}, &outcome.Refusal{Reason: ipamv1alpha1.ReasonError, Message: "the range of this scope is another one"}
		}
		return d.hold(ctx, pool)
	})
}
