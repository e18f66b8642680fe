package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
)

// A claim whose target is ScopeRange holds the pool that its class has for its scope. It has no block, and no
// IPAllocation: the entry of the pool in the ledger names the claim.
//
//	CREATE ──▶ the pool is held under a new ID ──▶ the answer shows the range and the ID ──▶ the claim is stored

// rangeOf returns a pool as the block of the claim that holds it.
func rangeOf(pool ledger.Pool) ledger.Block {
	return ledger.Block{
		Prefix: pool.CIDR, Pool: pool.ID, Holder: pool.Derived.Holder, Class: pool.Derived.Class,
		State: ledger.Bound, BoundAt: pool.Derived.HeldSince,
	}
}

// hold lets the claim hold a pool, unless another claim that exists holds it.
func (d *decision) hold(ctx context.Context, pool ledger.Pool) (ledger.Block, error) {
	if err := d.knowsHolder(ctx, pool); err != nil {
		return ledger.Block{}, err
	}
	held, err := pool, error(nil)
	by := pool.Derived.Holder
	switch {
	case !d.dry: // also a pool made with this holder: a claim of the name may have taken it, and been deleted with it
		held, err = d.r.Ledger.Derived.Hold(ctx, pool.ID, d.holder)
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

// knowsHolder returns an error while the ledger may lack the claim that holds a pool: the ledger was not compared with
// the published records yet, or has lost something. A claim that shows its range need not wait.
func (d *decision) knowsHolder(ctx context.Context, pool ledger.Pool) error {
	if d.claim.Status.AllocatedCIDR != "" || !d.r.Ledger.Recovery.Frozen(pool.ID) {
		return nil
	}
	whole, err := d.r.Compare(ctx, pool.ID)
	if err != nil || whole {
		return err
	}
	if frozen := (&ledger.FrozenError{Pool: pool.ID, Lost: pool.Frozen}); frozen.Lost {
		d.waits.at(nil)
		d.waits.anyway()
		return &outcome.Refusal{
			Reason: ipamv1alpha1.ReasonError, Message: fmt.Sprintf("pool %q is frozen: %v", pool.Name, frozen),
		}
	}
	return errUnchecked
}

// rangeOf returns a pool as the block of the claim. In a dry run the claim does not hold it yet.
func (d *decision) rangeOf(pool ledger.Pool) ledger.Block {
	block := rangeOf(pool)
	if d.dry && block.BoundAt.IsZero() {
		block.Holder, block.BoundAt = d.holder, d.r.clock.Now()
	}
	return block
}

// drop ends the hold that this decision has begun. If the hold has changed since then, it stays.
func (d *decision) drop(ctx context.Context) error {
	if d.held.ID == "" {
		return nil
	}
	err := d.r.Ledger.Derived.Drop(ctx, d.held.ID, d.holder.Claim, d.held.Derived.HeldSince)
	if errors.Is(err, ledger.ErrChanged) {
		return nil
	}
	return err
}

// contest returns why the claim does not get a pool that another claim holds. It returns errAgain if the other claim no
// longer holds the pool. If the other claim has the same name, and cannot exist any more, contest passes its hold to
// this claim, and returns errAgain, too.
func (d *decision) contest(ctx context.Context, pool ledger.Pool, by ledger.Holder) error {
	if d.dry {
		return heldBy(pool, by, d.tenant())
	}
	if promise.Follows(ledger.Block{Holder: by}, d.holder) {
		succeeds, err := d.succeeds(ctx, by, pool.Derived.HeldSince)
		if err == nil && succeeds {
			if _, err = d.r.Ledger.Derived.Hand(ctx, pool.ID, by.Claim, d.holder); err == nil {
				d.r.Answers.Forget(by)
			}
			err = cmp.Or(err, errAgain)
		}
		if err != nil {
			return err
		}
	}
	settled, err := d.settles(ctx, pool.ID, by)
	if err != nil {
		return fmt.Errorf("look for the claim that holds range %s: %w", pool.CIDR, err)
	}
	if now, ok := d.r.Ledger.Pools.Get(pool.ID); !ok || now.Derived.Holder != by {
		return errAgain
	}
	if !settled {
		return &outcome.Fault{Message: "it cannot be known now whether another claim holds the range of this scope"}
	}
	d.waits.at(nil)
	d.waits.anyway()
	return heldBy(pool, by, d.tenant())
}

// errUnstored: no server knows yet the claim that holds a range.
var errUnstored = errors.New("the claim that holds the range is not stored yet")

// settles reports whether the claim that holds a pool is known to exist, or to be gone. If a CREATE was answered with
// the pool a moment ago, its claim may be about to be stored. Another CREATE waits for that here.
func (d *decision) settles(ctx context.Context, id ledger.PoolID, by ledger.Holder) (settled bool, err error) {
	err = inTime(ctx, d.tenant(), turnTime, errUnstored, func() error {
		if settled, err = d.r.Releases.SettleWitnessed(ctx, by); settled || err != nil || !d.begun {
			return err
		}
		if pool, ok := d.r.Ledger.Pools.Get(id); ok && d.r.clock.Since(pool.Derived.HeldSince) < failing {
			return errUnstored
		}
		return nil
	})
	if errors.Is(err, errUnstored) {
		err = nil
	}
	return settled, err
}

// heldBy returns the refusal of a claim whose range another claim holds. It names no claim of another tenant.
func heldBy(pool ledger.Pool, by ledger.Holder, from ledger.ClusterName) *outcome.Refusal {
	said := fmt.Sprintf("range %s is held by another claim, of another workspace: "+
		"claim a Block inside it, or have that one deleted", pool.CIDR)
	if by.Tenant() == from {
		said = fmt.Sprintf("range %s is held by another claim, %s/%s: "+
			"delete that one, or claim a Block inside the range", pool.CIDR, by.Namespace, by.Name)
	}
	return &outcome.Refusal{Reason: ipamv1alpha1.ReasonRangeHeld, Message: said}
}

// showsRange reports whether the status of a claim shows the range that it holds, and needs no change.
func showsRange(claim *ipamv1alpha1.IPClaim, held ledger.Pool) bool {
	status := &claim.Status
	return status.Phase == ipamv1alpha1.ClaimBound && status.ObservedGeneration == claim.Generation &&
		!outcome.Failing(status.Conditions) && status.AllocatedCIDR == held.CIDR.String() &&
		status.PoolRef != nil && status.PoolRef.Name == held.Name
}
