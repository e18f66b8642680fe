package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
	"github.com/kcp-ipam/ipam/controllers/internal/reservation"
	"github.com/kcp-ipam/ipam/internal/absent"
)

// A claim whose CREATE was answered shows its block before the reconcile has confirmed it. So
// a claim may be gone that has no block in the ledger and no record, and was promised one. And
// a claim may be there that shows a block of which the ledger names another holder: an earlier
// claim of its name, or the reservation.

// promised confirms the reservation of a claim that is gone already, so that its block is released or
// retained as that of any other claim.
func (c *Controller) promised(ctx context.Context, o orphan) (orphan, error) {
	last := c.last(o.Claim)
	if last == nil {
		return o, nil
	}
	shown, ok := reservation.Shown(o.Cluster, last)
	if !ok {
		return o, nil
	}
	block, ok, err := c.ledger.Confirm(ctx, shown)
	if errors.Is(err, ledger.ErrShared) {
		block, ok, err = c.unshared(ctx, o, shown)
	}
	if err != nil {
		return o, err
	}
	if !ok {
		return c.suspect(ctx, o.Holder) // the reconcile may have confirmed it meanwhile
	}
	return holding(block), nil
}

// unshared confirms a reservation with which several CREATEs may have been answered, unless another
// claim exists that shows the block.
func (c *Controller) unshared(ctx context.Context, o orphan, shown allocator.Confirmation) (ledger.Block, bool, error) {
	answer, err := c.oracle.Holder(ctx, o.Holder)
	if err != nil {
		return ledger.Block{}, false, fmt.Errorf("look for another claim of the name %s/%s: %w", o.Namespace, o.Name, err)
	}
	other, there := answer.Object.(*ipamv1alpha1.IPClaim)
	if answer.Verdict != live.Gone || there && other.Status.AllocatedCIDR == shown.Prefix.String() {
		return ledger.Block{}, false, nil
	}
	shown.Certain = true
	return c.ledger.Confirm(ctx, shown)
}

// heir is the claim that has the orphan's name now, if it shows the orphan's block; else nil. A block of
// another address domain may have the same prefix: if the claim holds that, or it is reserved for the
// claim, that is the one it shows.
func (c *Controller) heir(ctx context.Context, o orphan, answer live.Answer) (*ipamv1alpha1.IPClaim, error) {
	claim, ok := answer.Object.(*ipamv1alpha1.IPClaim)
	if !ok || !o.held || claim.Status.AllocatedCIDR != o.prefix.String() {
		return nil, nil
	}
	for _, id := range []ledger.ClaimID{ledger.ClaimID(claim.UID), reservation.Of(o.Cluster, claim)} {
		own, has, err := c.ledger.Lookup(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("look up what %s/%s has: %w", claim.Namespace, claim.Name, err)
		}
		if has && own.Prefix == o.prefix && own.Space != o.block.Space {
			return nil, nil
		}
	}
	return claim, nil
}

// inherit gives a block to the claim that shows it: the one that the reservation was made for,
// or a later claim of the same name that was answered with the same block. It reports false as
// long as that is not possible.
func (c *Controller) inherit(ctx context.Context, o orphan, heir *ipamv1alpha1.IPClaim) (bool, error) {
	own, has, err := c.ledger.Lookup(ctx, ledger.ClaimID(heir.UID))
	switch {
	case err != nil:
		return false, fmt.Errorf("look up what %s/%s has: %w", heir.Namespace, heir.Name, err)
	case has && own.Prefix == o.prefix:
		return c.free(ctx, o, anotherHas) // both have it, and it is in dispute
	case has:
		return false, nil // it is about to show that one
	case reservation.Is(o.Claim):
		return c.confirmFor(ctx, o, heir)
	case o.block.State == ledger.Retained:
		return c.hand(ctx, o, heir)
	case reservation.InFlight(o.block, c.clock.Now()):
		return false, nil
	}
	holder := o.Holder
	holder.Claim = ledger.ClaimID(heir.UID)
	policy, err := c.reclaims(ctx, heir.Spec.ReclaimPolicy, o.block.Class)
	if err != nil {
		return false, fmt.Errorf("look up the reclaim policy of %s/%s: %w", heir.Namespace, heir.Name, err)
	}
	// The block is never free in between: both hold it, until the former one lets go.
	_, err = c.ledger.Adopt(ctx, ledger.Request{
		Pool: o.block.Pool, Holder: holder, Exact: o.prefix, Class: o.block.Class, Policy: cmp.Or(policy, o.block.Policy),
		Since: heir.CreationTimestamp.Time,
	}, ledger.Bound)
	if err != nil {
		return false, fmt.Errorf("give %s to %s/%s: %w", o.prefix, heir.Namespace, heir.Name, err)
	}
	former, err := c.suspect(ctx, o.Holder)
	if err != nil || !former.held {
		return err == nil, err
	}
	return c.free(ctx, former, laterHas)
}

// confirmFor gives a reservation to the claim that a live read has shown with its block.
func (c *Controller) confirmFor(ctx context.Context, o orphan, claim *ipamv1alpha1.IPClaim) (bool, error) {
	shown, _ := reservation.Shown(o.Cluster, claim)
	shown.Reservation, shown.Certain = o.Claim, true
	_, ok, err := c.ledger.Confirm(ctx, shown)
	if err != nil {
		return false, fmt.Errorf("confirm the block of %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	log.FromContext(ctx).Info("confirmed", "prefix", o.prefix, "confirmed", ok)
	return ok, nil
}

// owes reports whether a block is to be retained for which no record was written yet: the claim
// was seen with the block, and with Retain, and went before its reconcile.
func (c *Controller) owes(o orphan) bool {
	last := c.last(o.Claim)
	return o.held && o.block.State == ledger.Bound && last != nil && last.Status.PoolRef != nil &&
		c.policy(o.block) == ipamv1alpha1.ReclaimRetain
}

// recordLate writes the record of a claim that is gone, as a retained one, and retains the block.
// It reports false while a record of another claim is in its place.
func (c *Controller) recordLate(ctx context.Context, o orphan, workspace client.Client) (bool, error) {
	last := c.last(o.Claim)
	if reservation.InFlight(o.block, c.clock.Now()) {
		return false, nil
	}
	slot, err := record.Find(ctx, workspace, client.ObjectKeyFromObject(last))
	if err != nil || slot.Record != nil {
		return false, err
	}
	until, err := c.until(ctx, o.block)
	if err != nil {
		return false, err
	}
	// Where several replicas work at once, another may have retained the block meanwhile, and the record
	// may have been deleted since. To create it again would keep for good what its owner has released.
	now, held, err := c.ledger.Lookup(ctx, o.Claim)
	if err != nil || !held || now.Revision != o.block.Revision {
		return false, err
	}
	late := record.New(last, o.block, *last.Status.PoolRef, slot.Name)
	record.Retain(late, o.Name, o.Claim, until)
	err = c.maker.Create(ctx, workspace, o.Cluster, late)
	if apierrors.IsAlreadyExists(err) {
		return false, nil // the reconcile wrote it after all, and it is found next time
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || absent.Object(err, "namespaces", o.Namespace) {
		return c.free(ctx, o, namespaceGone) // and would take the record along
	}
	if err != nil {
		return false, fmt.Errorf("create IPAllocation %s: %w", late.Name, err)
	}
	return true, c.retain(ctx, o, late, workspace)
}
