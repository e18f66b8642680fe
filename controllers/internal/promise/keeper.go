package promise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
)

// Share is the share of a claim in a block that the ledger has under another holder of its name.
type Share int

const (
	// None: the claim does not show the block, or there is no claim.
	None Share = iota
	// Own: the claim holds the block, too, as in a ledger that was restored from an older copy.
	Own
	// Undecided: the claim is about to show another block.
	Undecided
	// Due: the claim gets the block, by [Keeper.Give], as soon as no other claim can come that shows it.
	Due
)

// Keeper gives blocks to the claims whose CREATEs were answered with them. All fields are required. It is safe for
// concurrent use.
type Keeper struct {
	Ledger views.Ledger
	// Reclaims is what becomes of the block of a claim that has this reclaimPolicy and class when the claim is deleted.
	Reclaims func(ctx context.Context, own ipamv1alpha1.ReclaimPolicy, class string) (ledger.ReclaimPolicy, error)
}

// Confirm gives a claim the block that was reserved when its CREATE was answered. ok is false if the claim was not
// answered so, or has its block already. Where another CREATE may have been answered with the same block, certain is
// asked whether this claim is the one to have it.
func (k Keeper) Confirm(ctx context.Context, cluster ledger.ClusterName, claim *ipamv1alpha1.IPClaim, certain func(context.Context) (bool, error)) (b ledger.Block, ok bool, err error) {
	shown, ok := Shown(cluster, claim)
	if !ok {
		return ledger.Block{}, false, nil
	}
	if b, ok, err = k.Ledger.Reservations.Confirm(ctx, shown); !errors.Is(err, ledger.ErrShared) {
		return b, ok, err
	}
	if shown.Certain, err = certain(ctx); err != nil || !shown.Certain {
		return ledger.Block{}, false, err
	}
	return k.Ledger.Reservations.Confirm(ctx, shown)
}

// Retained returns the block that a record keeps from a former claim of the name, if the claim shows it: its CREATE was
// answered with that. ok is false if there is no such block. record may be nil.
func (k Keeper) Retained(ctx context.Context, cluster ledger.ClusterName, record *ipamv1alpha1.IPAllocation, claim *ipamv1alpha1.IPClaim) (b ledger.Block, ok bool, err error) {
	if record == nil || record.Spec.ClaimRef != nil || record.Status.AllocatedCIDR != claim.Status.AllocatedCIDR ||
		claim.Spec.Target == ipamv1alpha1.TargetScopeRange || !inScope(claim, record.Spec.Scope) || !equality.Semantic.DeepEqual(&record.Spec.PoolRef, claim.Status.PoolRef) {
		return ledger.Block{}, false, nil
	}
	_, uid := record.HeldBy()
	b, ok, err = k.Ledger.Blocks.Lookup(ctx, ledger.ClaimID(uid))
	return b, ok && b.State == ledger.Retained && b.Prefix.String() == claim.Status.AllocatedCIDR && Follows(b, HolderOf(cluster, claim)), err
}

// inScope reports whether the scope of a claim has the references of a record.
func inScope(claim *ipamv1alpha1.IPClaim, scope ipamv1alpha1.Scope) bool {
	for role, ref := range scope {
		if claim.Spec.Scope[role] != ref {
			return false
		}
	}
	return true
}

// Superseded reports whether a record is left over from a former claim of the name, whose block a later claim has, own.
// The former claim has no block in the ledger any more, so that the deletion of the record frees nothing.
func (k Keeper) Superseded(ctx context.Context, record *ipamv1alpha1.IPAllocation, own ledger.Block) (bool, error) {
	if record == nil || record.Spec.ClaimRef != nil || record.Status.AllocatedCIDR != own.Prefix.String() {
		return false, nil
	}
	_, uid := record.HeldBy()
	_, held, err := k.Ledger.Blocks.Lookup(ctx, ledger.ClaimID(uid))
	return err == nil && !held, err
}

// Share finds the share of the claim that has the name of a block's holder by now. The claim was read live; nil: there
// is none. A block of another address domain may have the same prefix: if the claim has that, or it is reserved for the
// claim, that is the one that the claim shows.
func (k Keeper) Share(ctx context.Context, b ledger.Block, claim *ipamv1alpha1.IPClaim) (share Share, err error) {
	if claim == nil || claim.Status.AllocatedCIDR != b.Prefix.String() || claim.Spec.Target == ipamv1alpha1.TargetScopeRange {
		return None, nil
	}
	share = Due
	for _, id := range []ledger.ClaimID{Of(b.Holder.Cluster, claim), ledger.ClaimID(claim.UID)} {
		own, held, err := k.Ledger.Blocks.Lookup(ctx, id)
		switch {
		case err != nil:
			return None, fmt.Errorf("look up what %s/%s has: %w", claim.Namespace, claim.Name, err)
		case held && own.Prefix == b.Prefix && own.Space != b.Space:
			return None, nil
		case held && id == ledger.ClaimID(claim.UID) && own.Prefix == b.Prefix:
			share = Own
		case held && id == ledger.ClaimID(claim.UID):
			share = Undecided
		}
	}
	return share, nil
}

// Give gives a block to a claim of the same name, which takes it from its holder: from a reservation, or from a former
// claim that is gone. The claim was read live. ErrChanged: the block is not as given, or the claim has another one.
func (k Keeper) Give(ctx context.Context, b ledger.Block, claim *ipamv1alpha1.IPClaim) (ledger.Block, error) {
	to := allocator.Successor{Holder: HolderOf(b.Holder.Cluster, claim)}
	if claim.Status.AllocatedCIDR == b.Prefix.String() {
		to.Answered = Answered(claim)
	}
	if Is(b.Holder.Claim) {
		given, ok, err := k.Ledger.Reservations.Confirm(ctx, allocator.Confirmation{
			Reservation: b.Holder.Claim, Claim: to.Holder.Claim, Policy: ledger.ReclaimPolicy(claim.Spec.ReclaimPolicy),
			Prefix: b.Prefix, Answered: to.Answered, Certain: true,
		})
		if err == nil && !ok {
			err = ledger.ErrChanged
		}
		return given, err
	}
	var err error
	// A claim that says nothing has the policy of its class, and not that of the former claim.
	if to.Policy, err = k.Reclaims(ctx, claim.Spec.ReclaimPolicy, b.Class); err != nil {
		return ledger.Block{}, fmt.Errorf("look up the reclaim policy of %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	if b.State == ledger.Bound {
		retained, held, err := k.Ledger.Retained.Retain(ctx, b.Holder.Claim, time.Time{})
		if err == nil && (!held || retained.Prefix != b.Prefix) {
			err = ledger.ErrChanged
		}
		if err != nil {
			return ledger.Block{}, err
		}
		b = retained
	}
	return k.Ledger.Retained.Reuse(ctx, b, to)
}

// Follows reports whether a holder has the name that a block is held under.
func Follows(b ledger.Block, next ledger.Holder) bool {
	next.Claim = b.Holder.Claim
	return next == b.Holder
}

// HolderOf returns a claim of a workspace as the holder of a block.
func HolderOf(cluster ledger.ClusterName, claim *ipamv1alpha1.IPClaim) ledger.Holder {
	return ledger.Holder{Claim: ledger.ClaimID(claim.UID), Cluster: cluster, Namespace: claim.Namespace, Name: claim.Name}
}
