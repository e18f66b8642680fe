package pool

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	poll "k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

// glance is how often the cache is read for a pool that is about to be empty.
const glance = 20 * time.Millisecond

var _ door.Drainer = (*Reconciler)(nil)

// Drained implements door.Drainer. The server stored what the cache shows, so that a later read by the server shows no
// more blocks.
func (r *Reconciler) Drained(ctx context.Context, pool door.Pool) {
	draining, err := r.draining(ctx, pool)
	if err != nil {
		log.FromContext(ctx).V(1).Info("a DELETE does not wait", "cluster", pool.Cluster, "pool", pool.Name, "why", err.Error())
	}
	if !draining {
		return
	}
	_ = poll.PollUntilContextCancel(ctx, glance, true, func(ctx context.Context) (bool, error) {
		cl, err := r.clusters.GetCluster(ctx, r.Directory.Engaged(pool.Cluster))
		if err != nil {
			return false, err
		}
		shown := &ipamv1alpha1.IPPool{}
		if err := cl.GetCache().Get(ctx, client.ObjectKey{Name: pool.Name}, shown); err != nil || shown.UID != pool.UID {
			return true, client.IgnoreNotFound(err)
		}
		return !meta.IsStatusConditionTrue(shown.Status.Conditions, ipamv1alpha1.ConditionInUse), nil
	})
}

// draining reports whether all holders of blocks of a pool are gone, or about to be. It asks for the first ones: where all of
// them go, the others may as well.
func (r *Reconciler) draining(ctx context.Context, pool door.Pool) (bool, error) {
	asked := 0
	for b, err := range r.Ledger.Blocks.List(ctx, allocator.ListOptions{Pool: ledger.PoolID(pool.UID), Limit: looked}) {
		switch {
		case err != nil:
			return false, err
		case b.State == ledger.Cooling:
			continue
		case ledger.IsDerived(b.Holder.Claim) && !r.Ledger.Pools.InUse(ledger.PoolID(b.Holder.Claim)):
			continue // it goes with the pool
		case b.State == ledger.Retained, b.Holder.Cluster != pool.Cluster, ledger.IsDerived(b.Holder.Claim):
			return false, nil
		}
		answer, err := r.Oracle.Holder(ctx, b.Holder)
		if goes := answer.Verdict == live.Gone || answer.Verdict == live.Alive && answer.Leaving; err != nil || !goes {
			return false, err
		}
		if asked++; asked == named {
			break
		}
	}
	return true, nil
}
