package reach

import (
	"cmp"
	"net/netip"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// Key is a pool as the caller names it: the workspace is empty for the current one.
type Key struct{ Workspace, Name string }

// Holdings are the blocks of a pool that the caller may see, by address.
func (r *View) Holdings(in, name string, pools []ipamv1alpha1.IPPool, allocations []ipamv1alpha1.IPAllocation) []space.Holding {
	return r.AllHoldings(pools, allocations)[Key{Workspace: in, Name: name}]
}

// AllHoldings are the blocks of all pools that the caller may see, each pool's by address.
func (r *View) AllHoldings(pools []ipamv1alpha1.IPPool, allocations []ipamv1alpha1.IPAllocation) map[Key][]space.Holding {
	found := map[Key][]space.Holding{}
	add := func(h space.Holding, from client.Object, ref ipamv1alpha1.PoolRef, cidr string) {
		block, err := netip.ParsePrefix(cidr)
		if err != nil {
			return
		}
		key := Key{Workspace: r.Owner(from, ref), Name: ref.Name}
		h.Block, h.Since, h.Workspace = block, from.GetCreationTimestamp(), r.Workspace(from)
		h.Holder = space.In(h.Holder, h.Workspace)
		found[key] = append(found[key], h)
	}
	for i := range allocations {
		a := &allocations[i]
		add(space.HoldingOf(a), a, a.Spec.PoolRef, a.Status.AllocatedCIDR)
	}
	for i := range pools {
		if p := &pools[i]; p.Spec.ParentPoolRef != nil {
			add(space.Holding{Kind: space.Child, Slice: p.Labels[ipamv1alpha1.LabelSlice] != "", Name: p.Name, Holder: "pool " + p.Name}, p, *p.Spec.ParentPoolRef, p.Status.AllocatedCIDR)
		}
	}
	for _, held := range found {
		slices.SortFunc(held, func(a, b space.Holding) int {
			return cmp.Or(a.Block.Compare(b.Block), cmp.Compare(a.Holder, b.Holder))
		})
	}
	return found
}
