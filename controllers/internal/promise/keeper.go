package promise

import (
	"context"
	"fmt"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
)

// Keeper gives blocks to later claims of their names. All fields are required. It is safe for concurrent use.
type Keeper struct {
	Ledger views.Ledger
	// Reclaims is what becomes of the block of a claim that has this reclaimPolicy and class when the claim is deleted.
	Reclaims func(ctx context.Context, own ipamv1alpha1.ReclaimPolicy, class string) (ledger.ReclaimPolicy, error)
}

// Superseded reports whether a record is left over from a former claim of the name, whose block a later claim has, own.
// The former claim has no block in the ledger any more, so that the deletion of the record frees nothing.
func (k Keeper) Superseded(ctx context.Context, record *ipamv1alpha1.IPAllocation, own ledger.Block) (bool, error) {
	if record == nil || record.Spec.ClaimRef != nil || record.Status.AllocatedCIDR != own.Prefix.String() {
		return false, nil
	}
	_, held, err := k.Ledger.Blocks.Lookup(ctx, ledger.ClaimID(record.AllocationID()))
	return err == nil && !held, err
}

// Give gives a block to a claim of the name that it is held under, by the UID of the claim. The claim was read live,
// and shows the block, or is to have that of a former claim. ErrChanged: the block is not as given, or the claim has
// another one.
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

// Follows reports whether a holder has the name that a block is held under.
func Follows(b ledger.Block, next ledger.Holder) bool {
	next.Claim = b.Holder.Claim
	return next == b.Holder
}
