package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	poll "k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

// retire removes a deleted pool from the ledger, and then its finalizer. A pool in use stays, unless its workspace
// gives up the export: then the pool drains.
func (p *pass) retire(ctx context.Context) error {
	p.waiting.leave(p.request)
	p.Ledger.Waits.Withdraw(ledger.ClaimID(p.id))
	if !controllerutil.ContainsFinalizer(p.pool, ipamv1alpha1.FinalizerPool) {
		return nil
	}
	if whole, err := p.Adoption.Whole(ctx, p.id, p.pool.Status); err != nil || !whole {
		return p.reporter().freeze(ctx, cmp.Or(err, errLost))
	}
	p.Ledger.Recovery.Trust(p.id) // others of its domain wait for it
	err, drains := p.Ledger.Pools.Retire(ctx, p.id), false
	if errors.Is(err, ledger.ErrPoolInUse) && !p.Ledger.Pools.InUse(p.id) && p.RetireBelow(ctx, p.id) == nil {
		err = p.Ledger.Pools.Retire(ctx, p.id)
	}
	if errors.Is(err, ledger.ErrPoolInUse) {
		if !p.Directory.Leaves(p.owner.Cluster) {
			return p.report(ctx)
		}
		// Blocks of its pool that others hold do not keep the workspace from going.
		// The ledger keeps the addresses until the last of them is given back.
		err, drains = p.Ledger.Pools.Drain(ctx, p.id), true
	}
	// The slice controller drops the records of pools that it has seen. A new leader will not see this one.
	if err == nil && p.owner.Cluster == p.Directory.Platform().Cluster {
		err = p.Ledger.Slices.DropAll(ctx, p.id)
	}
	if err != nil {
		return fmt.Errorf("retire pool %s: %w", p.pool.Name, err)
	}
	if len(p.pool.Finalizers) > 1 && p.pool.Status.AllocatedCIDR != "" && !drains {
		// Others keep the object, perhaps for ever. A later process would take the block that it shows for lost. The
		// finalizer goes in the next pass.
		p.pool.Status = ipamv1alpha1.IPPoolStatus{}
		return nil
	}
	controllerutil.RemoveFinalizer(p.pool, ipamv1alpha1.FinalizerPool)
	log.FromContext(ctx).Info("pool retired", "prefix", p.pool.Status.AllocatedCIDR)
	return nil
}

// moved reports whether the spec of a pool puts it in another domain than the ledger has it in.
func moved(pool *ipamv1alpha1.IPPool, entered ledger.Pool) bool {
	return entered.Space != catalog.Space(pool, entered.Cluster)
}

// leave removes a pool from its domain, so that it can enter another. known is true if the ledger still has the pool. A
// pool in use stays in its domain until its last block is gone: admission has noticed the use a moment too late.
func (p *pass) leave(ctx context.Context) (known bool, err error) {
	if err = p.confirm(ctx); err != nil {
		return true, err
	}
	err = p.Ledger.Pools.Retire(ctx, p.id)
	if errors.Is(err, ledger.ErrPoolInUse) {
		return true, nil
	}
	if err != nil {
		return true, fmt.Errorf("take pool %s out of its address domain: %w", p.pool.Name, err)
	}
	// The status is outdated, and the other domain may refuse the pool.
	p.pool.Status = ipamv1alpha1.IPPoolStatus{Conditions: p.pool.Status.Conditions}
	p.wakeUnready(ctx, p.request.ClusterName, p.cluster, p.Queue) // perhaps it was in the way of one of these
	log.FromContext(ctx).Info("pool left its address domain")
	return false, nil
}

// glance is the time between two reads of the cache for a pool that is about to be empty.
const glance = 20 * time.Millisecond

var _ door.Drainer = (*Reconciler)(nil)

// Drained implements door.Drainer. It waits until the cache shows that the pool is gone, or is not in use. The server
// has stored what the cache shows, so that a later read by the server shows no more blocks.
func (r *Reconciler) Drained(ctx context.Context, pool door.Pool) {
	draining, err := r.draining(ctx, pool)
	if err != nil {
		log.FromContext(ctx).V(1).Info("a DELETE does not wait", "cluster", pool.Cluster, "pool", pool.Name,
			"why", err.Error())
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

// draining reports whether all holders of blocks of a pool are gone, or are being deleted. It asks only for the first
// holders: if all of these go, the others may go as well.
func (r *Reconciler) draining(ctx context.Context, pool door.Pool) (bool, error) {
	asked := 0
	for b, err := range r.Ledger.Blocks.List(ctx, allocator.ListOptions{Pool: ledger.PoolID(pool.UID), Limit: looked}) {
		switch {
		case err != nil:
			return false, err
		case b.State == ledger.Cooling:
			continue
		case ledger.IsDerived(b.Holder.Claim) && !r.Ledger.Pools.InUse(ledger.PoolID(b.Holder.Claim)):
			continue // an idle derived pool goes with this pool
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
