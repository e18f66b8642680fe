package address

import (
	"fmt"
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
		cidr, err := netip.ParsePrefix(p.Status.AllocatedCIDR)
		if err != nil || !cidr.Overlaps(block) {
			continue
		}
		part := block
		if cidr.Bits() > block.Bits() {
			part = cidr
		}
		state, ok := space.StateIn(p, cidr, part, held[reach.Key{Workspace: r.Workspace(p), Name: p.Name}])
		if !ok {
			continue
		}
		state.Block = part
		state.Pool = fmt.Sprintf("%s (%s)", space.In(p.Name, r.Workspace(p)), cidr)
		found = append(found, state)
	}
	return found
}
