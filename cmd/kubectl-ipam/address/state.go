package address

import (
	"net/netip"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/reach"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// stateOf is the state of a block that has an allocation.
func stateOf(a *ipamv1alpha1.IPAllocation) string {
	if a.Spec.ClaimRef == nil {
		return space.WordRetained
	}
	return space.WordAllocated
}

// statesOf asks every visible pool that has some of a block. A child pool that has all of it
// answers for its parent.
func statesOf(r *reach.View, block netip.Prefix, pools []ipamv1alpha1.IPPool, allocations []ipamv1alpha1.IPAllocation) []space.State {
	var found []space.State
	held := r.AllHoldings(pools, allocations)
	for i := range pools {
		p := &pools[i]
		if state, ok := space.StateOf(p, space.In(p.Name, r.Workspace(p)), block, held[reach.Key{Workspace: r.Workspace(p), Name: p.Name}]); ok {
			found = append(found, state)
		}
	}
	return found
}
