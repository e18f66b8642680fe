package ipamclient

import (
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/api/meta"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Allocation is the block that a claim holds, or the range if its target is ScopeRange. The zero value is no block.
type Allocation struct {
	// Prefix is the block in network form. A single address is a /32 or a /128.
	Prefix netip.Prefix
	// Pool is the pool that contains the block, or the pool that is the range. Its ProjectRef names the workspace of the
	// pool, and is absent if that is the claim's own.
	Pool ipamv1alpha1.PoolRef
	// ClassName is the class that was used, the default class included. It is empty for a claim
	// that names its pool.
	ClassName string
	// ReclaimPolicy is what the claim says about its deletion. It is empty where the class decides.
	ReclaimPolicy ipamv1alpha1.ReclaimPolicy
}

// AllocationOf reads the block of a claim from its status, as [Claim] does. ok is false while the claim has no block.
// An error means that the status names a block that is no prefix.
func AllocationOf(claim *ipamv1alpha1.IPClaim) (_ Allocation, ok bool, _ error) {
	status := claim.Status
	if status.AllocatedCIDR == "" || !meta.IsStatusConditionTrue(status.Conditions, ipamv1alpha1.ConditionAllocated) {
		return Allocation{}, false, nil
	}
	prefix, err := netip.ParsePrefix(status.AllocatedCIDR)
	if err != nil {
		return Allocation{}, false, fmt.Errorf("read the block of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	a := Allocation{Prefix: prefix, ClassName: status.ClassName, ReclaimPolicy: claim.Spec.ReclaimPolicy}
	if status.PoolRef != nil {
		a.Pool = *status.PoolRef.DeepCopy()
	}
	return a, true, nil
}
