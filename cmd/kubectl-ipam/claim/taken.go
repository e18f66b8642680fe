package claim

import (
	"context"
	"net/netip"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// taken says for each pool of the workspace who of the same workspace holds some of the address that a claim asks for. The
// zero value knows of nobody.
type taken map[string]string

// takenOf reads the holders that the caller may see.
func takenOf(ctx context.Context, c client.Reader, claim *ipamv1alpha1.IPClaim, pools []ipamv1alpha1.IPPool) (taken, error) {
	exact, err := facts.ParseBlock(claim.Spec.Address)
	if err != nil {
		return nil, nil //nolint:nilerr // it asks for a length
	}
	allocations := &ipamv1alpha1.IPAllocationList{}
	if err := c.List(ctx, allocations); exit.IgnoreUnseen(err) != nil {
		return nil, err
	}
	return holdersOf(exact, pools, allocations.Items), nil
}

// holdersOf finds a holder in each pool: a claim, a retained block or a child pool.
func holdersOf(exact netip.Prefix, pools []ipamv1alpha1.IPPool, allocations []ipamv1alpha1.IPAllocation) taken {
	found := taken{}
	note := func(pool, holder, block string) {
		if cidr, err := netip.ParsePrefix(block); err == nil && cidr.Overlaps(exact) && found[pool] == "" {
			found[pool] = holder + " holds " + block
		}
	}
	for i := range allocations {
		a := &allocations[i]
		if a.Spec.PoolRef.ProjectRef == nil {
			note(a.Spec.PoolRef.Name, space.HoldingOf(a).Holder, a.Status.AllocatedCIDR)
		}
	}
	for i := range pools {
		if parent := pools[i].Spec.ParentPoolRef; parent != nil && parent.ProjectRef == nil {
			note(parent.Name, "pool "+pools[i].Name, pools[i].Status.AllocatedCIDR)
		}
	}
	return found
}

// in names the holder of the address in a pool; empty if the caller can see none.
func (t taken) in(pool *ipamv1alpha1.IPPool) string { return t[pool.Name] }
