package adopt

import (
	"context"
	"errors"
	"net/netip"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Complete reports whether the ledger has all blocks that were ever published in a prefix: it has every pool
// that shows addresses of the prefix, whatever its workspace, and none of them has lost anything. It reads the pools
// live, and an endpoint that does not answer is an error. What is adopted before it returns may have been missing
// before. A pool that only waits to be compared is compared here: its owner could keep it waiting for ever. Safe for
// concurrent use.
func (a *Adopter) Complete(ctx context.Context, prefix netip.Prefix) (bool, error) {
	unseen := map[ledger.PoolID]bool{} // those that were not compared yet, as long as no workspace shows them
	for p := range a.Ledger.Pools() {  // which costs no list
		switch {
		case !p.CIDR.Overlaps(prefix):
		case p.Frozen || a.isLost(p.ID):
			return false, nil
		case a.waits(p):
			unseen[p.ID] = true
		}
	}
	whole, failed := true, error(nil)
	err := a.Record.Each(ctx, &ipamv1alpha1.IPPoolList{}, func(_ ledger.ClusterName, object client.Object) {
		pool := object.(*ipamv1alpha1.IPPool)
		cidr, err := netip.ParsePrefix(pool.Status.AllocatedCIDR)
		if err != nil || !cidr.Overlaps(prefix) || !whole || failed != nil {
			return
		}
		delete(unseen, ledger.PoolID(pool.UID))
		whole, failed = a.has(ctx, pool)
	})
	return whole && len(unseen) == 0, errors.Join(failed, err)
}

// waits reports whether a pool of the ledger was not compared with its status yet. One that drains has got no block
// since, and nothing may be left to compare it with.
func (a *Adopter) waits(p ledger.Pool) bool {
	return p.State == ledger.PoolOpen && a.Ledger.Frozen(p.ID)
}

// has reports whether the ledger has all that a pool's status speaks of. Our finalizer is taken off a pool that goes
// when the ledger has retired it, which only the process remembers that has seen it. Others may keep the pool there for
// as long as they like.
func (a *Adopter) has(ctx context.Context, pool *ipamv1alpha1.IPPool) (bool, error) {
	id := ledger.PoolID(pool.UID)
	p, known := a.Ledger.Pool(id)
	switch {
	case a.isLost(id), p.Frozen:
		return false, nil
	case known && !a.waits(p), !known && retired(pool):
		return true, nil
	}
	if behind, err := a.behind(ctx, id, pool.Status); err != nil || !behind {
		return err == nil, err
	}
	return a.Ledger.Retired(ctx, id)
}

func retired(pool *ipamv1alpha1.IPPool) bool {
	return !pool.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(pool, ipamv1alpha1.FinalizerPool)
}
