package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
	"github.com/kcp-ipam/ipam/controllers/internal/reservation"
)

// retains reports whether the block of a claim that is gone stays taken: it is retained already, or
// its record is, which a ledger restored from an older copy may not know, or it is to be.
func (c *Controller) retains(o orphan, record *ipamv1alpha1.IPAllocation) bool {
	return o.block.State == ledger.Retained || record.Spec.ClaimRef == nil || c.policy(o.block) == ipamv1alpha1.ReclaimRetain
}

// until is when the lease ends of a block that is retained now, by its class and pool as they are
// now; zero if it has none. It is a whole second, as the record can show no other.
func (c *Controller) until(ctx context.Context, block ledger.Block) (time.Time, error) {
	lease, err := c.leases(ctx, block)
	if err != nil || lease <= 0 {
		return time.Time{}, err
	}
	return c.clock.Now().UTC().Add(lease + time.Second - time.Nanosecond).Truncate(time.Second), nil
}

// retain keeps the block, and removes the claim from its record. The transaction that retains the block
// writes the end of the lease, which does not change from then on. If only the record is retained, the
// ledger has lost the end, and takes it from the record.
func (c *Controller) retain(ctx context.Context, o orphan, seen *ipamv1alpha1.IPAllocation, workspace client.Client) error {
	until, err := expiresOf(seen), error(nil)
	if seen.Spec.ClaimRef != nil && o.block.State != ledger.Retained {
		until, err = c.until(ctx, o.block)
	}
	if err != nil {
		return fmt.Errorf("look up the lease of %s/%s: %w", o.Namespace, o.Name, err)
	}
	block, held, err := c.ledger.Retain(ctx, o.Claim, until)
	if err != nil {
		return fmt.Errorf("retain the block of %s/%s: %w", o.Namespace, o.Name, err)
	}
	if held {
		until = block.Until
	}
	if seen.Spec.ClaimRef == nil && expiresOf(seen).Equal(until) {
		return nil
	}
	before := patch.Snapshot(seen)
	record.Retain(seen, o.Name, o.Claim, until)
	outcome.Observe(seen.Status.Conditions, seen.Generation+1)
	if err := before.PatchWhole(ctx, workspace, seen); err != nil {
		return fmt.Errorf("retain IPAllocation %s: %w", seen.Name, err)
	}
	log.FromContext(ctx).Info("retained", "prefix", seen.Status.AllocatedCIDR, "until", seen.Status.Expires)
	return nil
}

// expiresOf is when a record expires; zero if it does not.
func expiresOf(seen *ipamv1alpha1.IPAllocation) time.Time {
	if seen.Status.Expires == nil {
		return time.Time{}
	}
	return seen.Status.Expires.UTC()
}

// over reports whether the lease of a retained block has ended.
func (c *Controller) over(o orphan) bool {
	return o.held && o.block.State == ledger.Retained && !o.block.Until.IsZero() && !c.clock.Now().Before(o.block.Until)
}

// expire frees a block whose lease is over. last is its record, which was deleted just now; nil: there
// was none.
func (c *Controller) expire(ctx context.Context, o orphan, last *ipamv1alpha1.IPAllocation) (bool, error) {
	freed, err := c.free(ctx, o, leaseOver)
	if err != nil || !freed || last == nil {
		return freed, err
	}
	expirations.Inc()
	c.expired(ctx, o.Holder, last)
	return true, nil
}

// deleteSuperseded deletes the retained record of a former claim of the name whose block this claim
// has. It is there only if the claim went before its reconcile could replace it.
func (c *Controller) deleteSuperseded(ctx context.Context, o orphan, workspace client.Client) error {
	if !o.held || o.block.State != ledger.Bound {
		return nil
	}
	slot, err := record.Find(ctx, workspace, client.ObjectKey{Namespace: o.Namespace, Name: o.Name})
	former := slot.Record
	if err != nil || former == nil || former.Spec.ClaimRef != nil || former.Status.AllocatedCIDR != o.prefix.String() {
		return err
	}
	_, uid := former.HeldBy()
	_, held, err := c.ledger.Lookup(ctx, ledger.ClaimID(uid))
	if err != nil || held {
		return err
	}
	return deleteRecord(ctx, former, workspace)
}

// told gives a claim that is gone the retained block with which its CREATE was answered, so that the
// block is released or retained as that of any other claim. It changes nothing if there is no such
// block, or if another claim shows it by now.
func (c *Controller) told(ctx context.Context, o orphan, answer live.Answer) (orphan, error) {
	last := c.last(o.Claim)
	if o.held || last == nil {
		return o, nil
	}
	if other, ok := answer.Object.(*ipamv1alpha1.IPClaim); ok && other.Status.AllocatedCIDR == last.Status.AllocatedCIDR {
		return o, nil
	}
	slot, err := record.Find(ctx, answer.Client, client.ObjectKeyFromObject(last))
	former := slot.Record
	if err != nil || former == nil || former.Spec.ClaimRef != nil || former.Status.AllocatedCIDR != last.Status.AllocatedCIDR {
		return o, err
	}
	_, uid := former.HeldBy()
	block, ok, err := c.ledger.Lookup(ctx, ledger.ClaimID(uid))
	if err != nil || !ok || block.State != ledger.Retained {
		return o, err
	}
	if settled, err := c.hand(ctx, holding(block), last); err != nil || !settled {
		return o, err
	}
	return c.suspect(ctx, o.Holder)
}

// hand gives a retained block to a claim of its name whose CREATE was answered with it. It reports
// false while that is not possible.
func (c *Controller) hand(ctx context.Context, o orphan, heir *ipamv1alpha1.IPClaim) (bool, error) {
	holder := o.Holder
	holder.Claim = ledger.ClaimID(heir.UID)
	// As its reconcile would: a claim that says nothing has the policy of its class, and not that of
	// the former claim.
	policy, err := c.reclaims(ctx, heir.Spec.ReclaimPolicy, o.block.Class)
	if err != nil {
		return false, fmt.Errorf("look up the reclaim policy of %s/%s: %w", heir.Namespace, heir.Name, err)
	}
	_, err = c.ledger.Reuse(ctx, o.block, allocator.Successor{
		Holder: holder, Policy: policy, Answered: reservation.Answered(heir),
	})
	if errors.Is(err, ledger.ErrChanged) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("give %s to %s/%s: %w", o.prefix, heir.Namespace, heir.Name, err)
	}
	log.FromContext(ctx).Info("reused", "prefix", o.prefix)
	return true, nil
}
