package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/live"
	"github.com/kcp-ipam/ipam/controllers/outcome"
	"github.com/kcp-ipam/ipam/controllers/patch"
)

// records is the resource of the records.
const records = "ipallocations"

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

// Gone reports whether the servers say, now, that the holder does not exist. It
// reports false while that cannot be known.
func (c *Controller) Gone(ctx context.Context, h allocator.Holder) (bool, error) {
	answer, err := c.oracle.Holder(ctx, h)
	if err != nil {
		return false, fmt.Errorf("confirm that %s/%s is gone: %w", h.Namespace, h.Name, err)
	}
	return answer.Verdict == live.Gone && !c.outdated(h.Claim, answer.Revision), nil
}

// settle reads the block first, then asks for its holder, and then frees the block
// only as it was read.
func (c *Controller) settle(ctx context.Context, h allocator.Holder) (bool, error) {
	block, held, err := c.ledger.Lookup(ctx, h.Claim)
	if err != nil {
		return false, fmt.Errorf("look up the block of %s/%s: %w", h.Namespace, h.Name, err)
	}
	if held {
		// The ledger says which object holds the block. Asked for by the name of a hint, which
		// may be that of another claim, a live holder would seem to be gone.
		h = block.Holder
	}
	if !held && c.neverBound(h.Claim) {
		return true, nil // a bind under way that commits after this look finds its claim gone, and says so
	}
	suspect := orphan{Holder: h, block: block, held: held}
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
		return c.reclaim(ctx, suspect, answer.Client)
	case live.Unbound:
		if suspect.predates(answer.Since) && !c.HasDeparted(h.Cluster) {
			return false, nil
		}
		return c.abandon(ctx, suspect)
	case live.NoEndpoint:
		if !c.HasDeparted(h.Cluster) {
			return false, nil
		}
		return c.abandon(ctx, suspect)
	default:
		return false, nil
	}
}

// orphan is a holder that is asked for, and its block as it was before.
type orphan struct {
	allocator.Holder
	block allocator.Block
	held  bool // there is a block
}

// predates reports whether the block may be older than something that was made at a time of
// kcp's clock, which counts seconds.
func (o orphan) predates(made time.Time) bool {
	return o.held && !made.IsZero() && !o.block.BoundAt.After(made.Add(time.Second))
}

// abandon frees a block whose whole workspace is seen unbound for the second
// time. Its record went with the binding.
func (c *Controller) abandon(ctx context.Context, o orphan) (bool, error) {
	if !c.unboundTwice(o.Cluster) {
		return false, nil
	}
	return c.free(ctx, o, "workspace is unbound")
}

// reclaim does as the policy says with the block and the record of a claim that is gone.
func (c *Controller) reclaim(ctx context.Context, o orphan, workspace client.Client) (bool, error) {
	if o.Namespace == "" {
		return c.free(ctx, o, "pool is gone")
	}
	record, err := c.record(ctx, o.Holder, workspace)
	if err != nil {
		return false, err
	}
	if record == nil && c.missed(o.Claim) {
		return true, nil // nothing shows that this server ever knew the claim: left to the sweep
	}
	if o.held && record != nil && (o.block.State == allocator.Retained || c.policy(o.block) == ipamv1alpha1.ReclaimRetain) {
		return true, c.retain(ctx, o.Holder, record, workspace)
	}
	// The record goes first: what is published as taken is never free already.
	if record != nil {
		if err := deleteRecord(ctx, record, workspace); err != nil {
			return false, err
		}
	}
	return c.free(ctx, o, "claim is gone")
}

// record reads the holder's IPAllocation: the one that names the claim by UID,
// as its holder or as what it was retained from.
func (c *Controller) record(ctx context.Context, h allocator.Holder, workspace client.Client) (*ipamv1alpha1.IPAllocation, error) {
	for _, name := range ipamv1alpha1.AllocationNames(h.Namespace, h.Name) {
		record := &ipamv1alpha1.IPAllocation{}
		err := workspace.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: name}, record)
		if err != nil && !live.Absent(err, records, name) {
			return nil, fmt.Errorf("read IPAllocation %s/%s: %w", h.Namespace, name, err)
		}
		if _, uid := record.HeldBy(); err == nil && uid == types.UID(h.Claim) {
			return record, nil
		}
	}
	return nil, nil
}

// retain keeps the block, and takes the claim out of its record.
func (c *Controller) retain(ctx context.Context, h allocator.Holder, record *ipamv1alpha1.IPAllocation, workspace client.Client) error {
	if _, _, err := c.ledger.Retain(ctx, h.Claim); err != nil {
		return fmt.Errorf("retain the block of %s/%s: %w", h.Namespace, h.Name, err)
	}
	if record.Spec.ClaimRef == nil {
		return nil
	}
	before := patch.Snapshot(record)
	record.Spec.ClaimRef = nil
	record.Spec.ReclaimPolicy = ipamv1alpha1.ReclaimRetain
	if record.Annotations == nil {
		record.Annotations = map[string]string{}
	}
	record.Annotations[ipamv1alpha1.AnnotationRetainedFrom] = h.Name + "/" + string(h.Claim)
	outcome.Observe(record.Status.Conditions, record.Generation+1)
	if err := before.PatchWhole(ctx, workspace, record); err != nil {
		return fmt.Errorf("retain IPAllocation %s: %w", record.Name, err)
	}
	log.FromContext(ctx).Info("retained", "prefix", record.Status.AllocatedCIDR)
	return nil
}

// free gives the block back, if it has not changed since it was read: else it
// reports false. What was carved for a child pool that is gone drains first, while
// others still hold blocks of it.
func (c *Controller) free(ctx context.Context, o orphan, why string) (bool, error) {
	var err error
	switch {
	case o.Namespace == "":
		err = c.ledger.Drain(ctx, allocator.PoolID(o.Claim))
	case o.held:
		err = c.ledger.ReleaseIf(ctx, o.block)
	default:
		c.ledger.Withdraw(o.Claim)
		return true, nil
	}
	if errors.Is(err, allocator.ErrUnknownPool) {
		return true, nil // a child that was retired meanwhile, and its block with it
	}
	if errors.Is(err, allocator.ErrChanged) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("release the block of %s/%s: %w", o.Namespace, o.Name, err)
	}
	log.FromContext(ctx).Info("released", "prefix", o.block.Prefix, "why", why)
	return true, nil
}

// deleteRecord deletes exactly the record that was read.
func deleteRecord(ctx context.Context, record *ipamv1alpha1.IPAllocation, workspace client.Client) error {
	err := workspace.Delete(ctx, record, client.Preconditions{
		UID:             new(record.UID),
		ResourceVersion: new(record.ResourceVersion),
	})
	if err != nil && !live.Absent(err, records, record.Name) {
		return fmt.Errorf("delete IPAllocation %s: %w", record.Name, err)
	}
	return nil
}
