package record

import (
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// Place says where the record of a block is, and describes its pool.
type Place struct {
	// Name is the name of the record.
	Name string
	// Pool refers to the block's pool from the claim's workspace.
	Pool ipamv1alpha1.PoolRef
	// Scope has the references within which the block's addresses are unique. Empty: they are unique in the pool.
	Scope ledger.Scope
}

// Scope returns the scope of an address space; nil if the pool is no address space.
func Scope(pool ledger.Pool) ledger.Scope {
	if !ledger.IsAddressSpace(pool.ID) {
		return nil
	}
	return pool.Derived.Scope
}

// New builds the IPAllocation of a claim's block.
func New(claim *ipamv1alpha1.IPClaim, block ledger.Block, at Place) *ipamv1alpha1.IPAllocation {
	record := &ipamv1alpha1.IPAllocation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: claim.Namespace,
			Name:      at.Name,
		},
		Spec: ipamv1alpha1.IPAllocationSpec{
			IPFamily:      resolve.Family(block.Prefix),
			PoolRef:       at.Pool,
			ClassName:     block.Class,
			ClaimRef:      &ipamv1alpha1.ClaimRef{Name: claim.Name, UID: claim.UID},
			ReclaimPolicy: ipamv1alpha1.ReclaimPolicy(block.Policy),
			OwnerRef:      claim.Spec.OwnerRef,
			Purpose:       ipamv1alpha1.PurposeClaim,
		},
		Status: status(block),
	}
	if ledger.IsAllocationID(block.Holder.Claim) {
		record.Spec.ClaimRef.AllocationID = types.UID(block.Holder.Claim)
	}
	if ledger.IsAddressSpace(block.Pool) {
		record.Spec.Scope = resolve.APIScope(at.Scope)
		record.Status.ScopeDigest = ledger.Digest(block.Pool)
	}
	return record
}

// status returns the status of a block's record.
func status(block ledger.Block) ipamv1alpha1.IPAllocationStatus {
	status := ipamv1alpha1.IPAllocationStatus{
		Phase:         ipamv1alpha1.AllocationReady,
		AllocatedCIDR: block.Prefix.String(),
		Address:       Address(block.Prefix),
	}
	outcome.Succeed(&status.Conditions, 1, "holds "+block.Prefix.String())
	Date(status.Conditions, block)
	return status
}

// Date sets the transition time of conditions that were never published: the second in which the block was bound.
func Date(conditions []metav1.Condition, block ledger.Block) {
	for i := range conditions {
		conditions[i].LastTransitionTime = metav1.NewTime(block.BoundAt.UTC())
	}
}

// Address returns the address of a block that has only one; empty for any other block.
func Address(block netip.Prefix) string {
	if block.IsSingleIP() {
		return block.Addr().String()
	}
	return ""
}

// Retain removes the claim from a record. Record and block then stay until a user deletes the record, or until the
// given time, unless that is zero.
func Retain(record *ipamv1alpha1.IPAllocation, claim string, holder ledger.ClaimID, until time.Time) {
	record.Status.Expires = nil
	if !until.IsZero() {
		record.Status.Expires = &metav1.Time{Time: until}
	}
	from := claim + "/" + string(holder)
	if ref := record.Spec.ClaimRef; ref != nil && string(ref.UID) != string(holder) {
		from = claim + "/" + string(ref.UID) + "/" + string(holder)
	}
	record.Spec.ClaimRef = nil
	record.Spec.ReclaimPolicy = ipamv1alpha1.ReclaimRetain
	metav1.SetMetaDataAnnotation(&record.ObjectMeta, ipamv1alpha1.AnnotationRetainedFrom, from)
}
