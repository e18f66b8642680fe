package adopt

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
)

// Compare compares the ledger with the status of every pool in the space of a pool, and trusts the pools that
// have lost nothing. It reports whether no pool has lost anything. It is for CREATEs that come before the
// leader has compared them. It writes nothing: the pass of the leader reports the losses. Safe for concurrent use.
//
// A cache that lags shows an older status, which speaks of fewer changes. The caches were filled
// after the ledger was opened, as those of the leader are, and a ledger that is exchanged later is
// noticed by the Allocator itself.
func (a *Adopter) Compare(ctx context.Context, id ledger.PoolID) (bool, error) {
	of, known := a.Ledger.Pools().Get(id)
	if !known {
		return false, nil
	}
	all := true
	for p := range a.Ledger.Pools().All() {
		if p.Space != of.Space || p.State != ledger.PoolOpen || !a.Ledger.Recovery().Frozen(p.ID) {
			continue
		}
		whole, err := a.compare(ctx, p)
		if err != nil {
			return false, fmt.Errorf("compare pool %s of %s with its status: %w", p.Name, p.Cluster, err)
		}
		all = all && whole
	}
	return all, nil
}

// compare trusts one pool, if the ledger has all that its status speaks of.
func (a *Adopter) compare(ctx context.Context, p ledger.Pool) (bool, error) {
	if p.Frozen {
		return false, nil
	}
	if ledger.IsAddressSpace(p.ID) { // its changes count with those of its pool, which alone is published
		var known bool
		if p, known = a.Ledger.Pools().Get(p.Derived.Of); !known {
			return false, nil
		}
	}
	cl, err := a.Clusters.GetCluster(ctx, a.Directory.Engaged(p.Cluster))
	if err != nil {
		return false, err
	}
	pool := &ipamv1alpha1.IPPool{}
	if err := cl.GetCache().Get(ctx, client.ObjectKey{Name: p.Name}, pool); err != nil {
		return false, err
	}
	if id, ok := catalog.IDOf(a.Ledger.Pools(), pool, p.Cluster); !ok || id != p.ID || pool.Status.AllocatedCIDR == "" || pool.Status.ObservedGeneration != pool.Generation {
		return false, nil // what it excludes may have changed, which the leader has to follow first
	}
	behind, err := a.behind(ctx, p.ID, pool.Status)
	if err != nil || behind {
		return false, err
	}
	a.Ledger.Recovery().Trust(p.ID)
	return true, nil
}
