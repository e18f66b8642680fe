package promise

import (
	"context"
	"fmt"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
)

// Keeper gives blocks to later claims of the same name. All fields are required. It is safe for concurrent use.
type Keeper struct {
	Ledger views.Ledger
	// Reclaims returns the policy for the block of a deleted claim. own is the claim's own reclaimPolicy.
	Reclaims func(ctx context.Context, own ipamv1alpha1.ReclaimPolicy, class string) (ledger.ReclaimPolicy, error)
}

// Superseded reports whether a record is left over from a former claim of the name. own is the block that a later claim
// of that name has now. If so, the former claim has no block in the ledger any more, and the deletion of its record
// frees nothing.
func (k Keeper) Superseded(ctx context.Context, record *ipamv1alpha1.IPAllocation, own ledger.Block) (bool, error) {
	if record == nil || record.Spec.ClaimRef != nil || record.Status.AllocatedCIDR != own.Prefix.String() {
		return false, nil
	}
	_, held, err := k.Ledger.Blocks.Lookup(ctx, ledger.ClaimID(record.AllocationID()))
	return err == nil && !held, err
}

// Give gives a block to a claim that has the name of the block's holder. From then on the claim holds the block by its
// UID. The claim must have been read live, and must either show the block, or follow a former claim that had it.
// ErrChanged: the block is not as given, or the claim has another block.
func (k Keeper) Give(ctx context.Context, b ledger.Block, claim *ipamv1alpha1.IPClaim) (ledger.Block, error) {
	to := allocator.Successor{Holder: b.Holder}
	to.Holder.Claim = ledger.ClaimID(claim.UID)
	var err error
	// A claim that says nothing has the policy of its class, and not that of the former claim.
	if to.Policy, err = k.Reclaims(ctx, claim.Spec.ReclaimPolicy, b.Class); err != nil {
		return ledger.Block{}, fmt.Errorf("look up the reclaim policy of %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return k.Ledger.Retained.HandOver(ctx, b, to)
}

// Follows reports whether a holder has the same name as the holder of a block.
func Follows(b ledger.Block, next ledger.Holder) bool {
	next.Claim = b.Holder.Claim
	return next == b.Holder
}
