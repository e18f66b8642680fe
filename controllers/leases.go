package controllers

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/catalog"
	"github.com/kcp-ipam/ipam/controllers/directory"
)

// leases says how long blocks are retained.
type leases struct {
	catalog *catalog.Catalog
	ledger  interface {
		Pool(id allocator.PoolID) (allocator.Pool, bool)
	}
}

// of is how long a block is retained, by its class and its pool as the caches show them now: the
// lease of the class, bounded by that of the pool. 0: it has no lease. A class or a pool that is
// not there has none.
func (l leases) of(ctx context.Context, block allocator.Block) (time.Duration, error) {
	view := l.catalog.View(ctx)
	var lease, bound time.Duration
	if class, ok := view.Class(block.Class); block.Class != "" && ok {
		lease = class.Spec.RetentionLease.Value()
	}
	if known, ok := l.ledger.Pool(block.Pool); ok {
		pool, ok := view.Pool(l.catalog.Directory.Workspace(known.Cluster), known.Name)
		if ok && allocator.PoolID(pool.UID) == block.Pool {
			bound = pool.Spec.MaxRetentionLease.Value()
		}
	}
	if err := view.Err(); err != nil {
		return 0, err
	}
	if lease == 0 || bound > 0 && bound < lease {
		return bound, nil
	}
	return lease, nil
}

// tellExpired emits an event on an IPAllocation that was released because its lease was over.
func tellExpired(clusters catalog.Clusters, known *directory.Directory) func(context.Context, allocator.Holder, *ipamv1alpha1.IPAllocation) {
	return func(ctx context.Context, h allocator.Holder, last *ipamv1alpha1.IPAllocation) {
		workspace, err := clusters.GetCluster(ctx, known.Engaged(h.Cluster))
		if err != nil {
			log.FromContext(ctx).Info("no event was written that a lease is over: the workspace is not engaged", "error", err.Error())
			return
		}
		workspace.GetEventRecorder("ipam-controller").Eventf(last, nil, corev1.EventTypeNormal, string(ipamv1alpha1.ReasonLeaseExpired),
			"Release", "the lease of the retained block is over; %s was released", last.Status.AllocatedCIDR)
	}
}
