package claim

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// poolOf returns the reference to the pool of a block, as a workspace writes it. For a block of an address space it is
// the pool of that space.
func (r *Reconciler) poolOf(block ledger.Block, from ledger.ClusterName) (ipamv1alpha1.PoolRef, error) {
	id := block.Pool
	if of, is := ledger.AddressSpaceOf(id); is {
		id = of
	}
	pool, ok := r.Ledger.Pools.Get(id)
	if !ok {
		return ipamv1alpha1.PoolRef{}, fmt.Errorf("pool %s of block %s is not in the ledger", block.Pool, block.Prefix)
	}
	return r.refer(pool, from)
}

// refer returns the reference to a pool: its name alone in the pool's own workspace, else with the owner's path. It
// fails while that path is not known.
func (r *Reconciler) refer(pool ledger.Pool, from ledger.ClusterName) (ipamv1alpha1.PoolRef, error) {
	ref := ipamv1alpha1.PoolRef{Name: pool.Name}
	if pool.Cluster == from {
		return ref, nil
	}
	owner := r.Directory.Workspace(pool.Cluster)
	if owner.Path == "" {
		return ref, &outcome.Fault{Message: fmt.Sprintf("the path of pool %s's workspace is not known yet", pool.Name)}
	}
	ref.ProjectRef = &ipamv1alpha1.ProjectRef{Name: owner.Path}
	return ref, nil
}

// bound reports whether claim and record show the same block, and need no change.
func bound(claim *ipamv1alpha1.IPClaim, record *ipamv1alpha1.IPAllocation) bool {
	status := &claim.Status
	return status.Phase == ipamv1alpha1.ClaimBound &&
		status.ObservedGeneration == claim.Generation && !outcome.Failing(status.Conditions) &&
		records(record, claim) && record.Spec.ClaimRef.UID == claim.UID &&
		record.Status.AllocatedCIDR == status.AllocatedCIDR && record.Status.Address == status.Address &&
		equality.Semantic.DeepEqual(record.Status.Number, status.Number) &&
		record.Spec.ClaimRef.AllocationID == status.AllocationID &&
		status.PoolRef != nil && equality.Semantic.DeepEqual(*status.PoolRef, record.Spec.PoolRef) &&
		status.BoundAllocationRef != nil && status.BoundAllocationRef.Name == record.Name
}

// succeeded sets the status of a claim that has its block. recorded is the name of its record; a range has none.
func succeeded(claim *ipamv1alpha1.IPClaim, block ledger.Block, pool ipamv1alpha1.PoolRef, recorded string) {
	status := &claim.Status
	status.Phase = ipamv1alpha1.ClaimBound
	status.AllocatedCIDR, status.AllocationID = block.Prefix.String(), ""
	if ledger.IsAllocationID(block.Holder.Claim) {
		status.AllocationID = types.UID(block.Holder.Claim)
	}
	status.Address = record.Address(block.Prefix)
	status.ClassName = block.Class
	status.IPFamily = resolve.Family(block.Prefix)
	status.PoolRef = &pool
	// a plan that was refused has no length
	status.Requested = cmp.Or(status.Requested, fmt.Sprintf("/%d", block.Prefix.Bits()))
	status.BoundAllocationRef = nil
	if recorded != "" {
		status.BoundAllocationRef = &ipamv1alpha1.LocalRef{Name: recorded}
	}
	status.ObservedGeneration = claim.Generation
	outcome.Succeed(&status.Conditions, claim.Generation, "bound to "+block.Prefix.String())
}

// number returns the number of a block by its class, or nil if the class gives no numbers. If the class is gone, it
// returns the number that was shown.
func (r *Reconciler) number(ctx context.Context, block ledger.Block, shown *int64) *int64 {
	class, ok := r.Catalog.View(ctx).Class(block.Class)
	switch {
	case !ok:
		return shown
	case class.Spec.Number == nil || !block.Prefix.IsSingleIP():
		return nil
	}
	return new(class.Spec.Number.Of(block.Prefix.Addr()))
}

// records reports whether a record is that of a claim: it names the claim's UID, or the allocation ID that the claim
// shows. It is false for a nil record.
func records(record *ipamv1alpha1.IPAllocation, claim *ipamv1alpha1.IPClaim) bool {
	if record == nil || record.Spec.ClaimRef == nil {
		return false
	}
	id := record.Spec.ClaimRef.AllocationID
	return record.Spec.ClaimRef.UID == claim.UID ||
		id != "" && claim.Status.AllocatedCIDR != "" && id == claim.Status.AllocationID
}
