package release

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/live"
)

// Reconcile settles one hint. A holder that nobody can speak for is looked at
// again, with backoff, for as long as it takes.
func (c *Controller) Reconcile(ctx context.Context, h allocator.Holder) (reconcile.Result, error) {
	settled, err := c.settle(ctx, h)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !settled {
		return reconcile.Result{RequeueAfter: c.backoff.When(h)}, nil
	}
	c.backoff.Forget(h)
	c.forget(h.Claim)
	return reconcile.Result{}, nil
}

// Settle settles a hint at once. It reports false while it cannot be known
// whether the holder is gone.
func (c *Controller) Settle(ctx context.Context, h allocator.Holder) (bool, error) {
	return c.settle(ctx, h)
}

func (c *Controller) settle(ctx context.Context, h allocator.Holder) (bool, error) {
	if c.neverBound(h.Claim) {
		// A bind under way that commits after this look finds its claim gone, and says so.
		if _, ok, err := c.ledger.Lookup(ctx, h.Claim); err != nil || !ok {
			return err == nil, err
		}
	}
	answer, err := c.oracle.Holder(ctx, h)
	if err != nil {
		return false, fmt.Errorf("confirm that %s/%s is gone: %w", h.Namespace, h.Name, err)
	}
	switch answer.Verdict {
	case live.Alive:
		return true, nil
	case live.Gone:
		if c.outdated(h.Claim, answer.Revision) {
			log.FromContext(ctx).Info("the server is older than the claim that it does not know; was it restored from a backup?",
				"server", answer.Revision)
			return false, nil
		}
		return true, c.reclaim(ctx, h, answer.Client)
	case live.Unbound:
		return c.abandon(ctx, h)
	case live.NoEndpoint:
		if !c.hasDeparted(h.Cluster) {
			return false, nil
		}
		return c.abandon(ctx, h)
	default:
		return false, nil
	}
}

// abandon frees a block whose whole workspace is seen unbound for the second
// time. Its record went with the binding.
func (c *Controller) abandon(ctx context.Context, h allocator.Holder) (bool, error) {
	if !c.unboundTwice(h.Cluster) {
		return false, nil
	}
	return true, c.free(ctx, h, "workspace is unbound")
}

// reclaim does as the policy says with the block and the record of a claim that is gone.
func (c *Controller) reclaim(ctx context.Context, h allocator.Holder, workspace client.Client) error {
	block, ok, err := c.ledger.Lookup(ctx, h.Claim)
	if err != nil {
		return fmt.Errorf("look up the block of %s/%s: %w", h.Namespace, h.Name, err)
	}
	if h.Namespace == "" {
		return c.free(ctx, h, "pool is gone")
	}
	record, err := c.record(ctx, h, workspace)
	if err != nil {
		return err
	}
	if ok && record != nil && (block.State == allocator.Retained || c.policy(block) == ipamv1alpha1.ReclaimRetain) {
		return c.retain(ctx, h, record, workspace)
	}
	// The record goes first: what is published as taken is never free already.
	if record != nil {
		if err := deleteRecord(ctx, record, workspace); err != nil {
			return err
		}
	}
	return c.free(ctx, h, "claim is gone")
}

// record reads the holder's IPAllocation: the one that names the claim by UID,
// as its holder or as what it was retained from.
func (c *Controller) record(ctx context.Context, h allocator.Holder, workspace client.Client) (*ipamv1alpha1.IPAllocation, error) {
	record := &ipamv1alpha1.IPAllocation{}
	key := client.ObjectKey{Namespace: h.Namespace, Name: ipamv1alpha1.AllocationName(h.Namespace, h.Name)}
	if err := workspace.Get(ctx, key, record); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read IPAllocation %s: %w", key, err)
	}
	if _, uid := record.HeldBy(); uid != types.UID(h.Claim) {
		return nil, nil
	}
	return record, nil
}

// retain keeps the block, and takes the claim out of its record.
func (c *Controller) retain(ctx context.Context, h allocator.Holder, record *ipamv1alpha1.IPAllocation, workspace client.Client) error {
	if _, _, err := c.ledger.Retain(ctx, h.Claim); err != nil {
		return fmt.Errorf("retain the block of %s/%s: %w", h.Namespace, h.Name, err)
	}
	if record.Spec.ClaimRef == nil {
		return nil
	}
	before := record.DeepCopy()
	record.Spec.ClaimRef = nil
	record.Spec.ReclaimPolicy = ipamv1alpha1.ReclaimRetain
	if record.Annotations == nil {
		record.Annotations = map[string]string{}
	}
	record.Annotations[ipamv1alpha1.AnnotationRetainedFrom] = h.Name + "/" + string(h.Claim)
	if err := workspace.Patch(ctx, record, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("retain IPAllocation %s: %w", record.Name, err)
	}
	log.FromContext(ctx).Info("retained", "prefix", record.Status.AllocatedCIDR)
	return nil
}

// free gives the block back. What was carved for a child pool that is gone
// drains first, while others still hold blocks of it.
func (c *Controller) free(ctx context.Context, h allocator.Holder, why string) error {
	var err error
	if h.Namespace == "" {
		err = c.ledger.Drain(ctx, allocator.PoolID(h.Claim))
	} else {
		err = c.ledger.Release(ctx, h.Claim)
	}
	if err != nil {
		return fmt.Errorf("release the block of %s/%s: %w", h.Namespace, h.Name, err)
	}
	log.FromContext(ctx).Info("released", "why", why)
	return nil
}

// deleteRecord deletes exactly the record that was read.
func deleteRecord(ctx context.Context, record *ipamv1alpha1.IPAllocation, workspace client.Client) error {
	err := workspace.Delete(ctx, record, client.Preconditions{
		UID:             new(record.UID),
		ResourceVersion: new(record.ResourceVersion),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete IPAllocation %s: %w", record.Name, err)
	}
	return nil
}
