package record

import (
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// New builds the IPAllocation of a claim's block, under the name of its slot. The pool is named
// as the claim's workspace sees it.
func New(claim *ipamv1alpha1.IPClaim, block ledger.Block, pool ipamv1alpha1.PoolRef, name string) *ipamv1alpha1.IPAllocation {
	return &ipamv1alpha1.IPAllocation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: claim.Namespace,
			Name:      name,
		},
		Spec: ipamv1alpha1.IPAllocationSpec{
			IPFamily:      resolve.Family(block.Prefix),
			PoolRef:       pool,
			ClassName:     block.Class,
			ClaimRef:      &ipamv1alpha1.ClaimRef{Name: claim.Name, UID: claim.UID},
			ReclaimPolicy: ipamv1alpha1.ReclaimPolicy(block.Policy),
			OwnerRef:      claim.Spec.OwnerRef,
		},
		Status: status(block),
	}
}

// status is that of the record of a block.
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

// Date sets the transition time of conditions that were never published: the second in which the block
// was bound or reserved.
func Date(conditions []metav1.Condition, block ledger.Block) {
	for i := range conditions {
		conditions[i].LastTransitionTime = metav1.NewTime(block.BoundAt.UTC())
	}
}

// Address is the bare form of a block that is one address; empty for any other.
func Address(block netip.Prefix) string {
	if block.IsSingleIP() {
		return block.Addr().String()
	}
	return ""
}

// Retain takes the claim out of a record: it then lives, and its block, until a user deletes it, or
// until the time given, if that is not zero.
func Retain(record *ipamv1alpha1.IPAllocation, claim string, holder ledger.ClaimID, until time.Time) {
	record.Status.Expires = nil
	if !until.IsZero() {
		record.Status.Expires = &metav1.Time{Time: until}
	}
	record.Spec.ClaimRef = nil
	record.Spec.ReclaimPolicy = ipamv1alpha1.ReclaimRetain
	metav1.SetMetaDataAnnotation(&record.ObjectMeta, ipamv1alpha1.AnnotationRetainedFrom, claim+"/"+string(holder))
}
