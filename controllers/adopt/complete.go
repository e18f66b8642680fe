package adopt

import (
	"context"
	"errors"
	"net/netip"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Complete reports whether the ledger has all blocks that were ever published in a prefix: it has every pool
// that shows addresses of the prefix, whatever its workspace, and none of them is frozen. It reads the pools
// live, and an endpoint that does not answer is an error. What is adopted before it returns may have been missing
// before. Safe for concurrent use.
func (a *Adopter) Complete(ctx context.Context, prefix netip.Prefix) (bool, error) {
	for p := range a.Ledger.Pools() { // which costs no list
		if p.CIDR.Overlaps(prefix) && a.lacks(p.ID) {
			return false, nil
		}
	}
	whole, failed := true, error(nil)
	err := a.Record.Each(ctx, &ipamv1alpha1.IPPoolList{}, func(_ allocator.ClusterName, object client.Object) {
		pool := object.(*ipamv1alpha1.IPPool)
		cidr, err := netip.ParsePrefix(pool.Status.AllocatedCIDR)
		if err != nil || !cidr.Overlaps(prefix) || !whole || failed != nil {
			return
		}
		id := allocator.PoolID(pool.UID)
		if whole = !a.lacks(id); !whole {
			whole, failed = a.Ledger.Retired(ctx, id)
		}
	})
	return whole, errors.Join(failed, err)
}

// lacks reports whether the ledger does not have a pool, or may lack blocks of it. A pool that drains has got no
// block since, and nothing may be left to compare it with.
func (a *Adopter) lacks(id allocator.PoolID) bool {
	p, known := a.Ledger.Pool(id)
	return !known || p.Frozen || a.isLost(id) || p.State == allocator.PoolOpen && a.Ledger.Frozen(id)
}
