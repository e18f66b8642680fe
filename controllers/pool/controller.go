package pool

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/feed"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
)

const (
	// component is the reporter of the controller's events.
	component = "ipam-controller"
	// lostDelay is the delay of the requeue of a pool while the ledger lacks something that it has lost of the pool.
	lostDelay = 2 * time.Second
)

// Options configure the controller. All fields but MaxPools and Answers are required.
type Options struct {
	Ledger    views.Ledger
	Catalog   *catalog.Catalog
	Directory *directory.Directory
	Adoption  Adoption
	Oracle    Oracle
	// RetireBelow retires the derived pools below a pool. It fails if one of them is in use.
	RetireBelow func(ctx context.Context, id ledger.PoolID) error
	// Goes returns when an unused derived pool will be retired. The time is zero while addresses cool in the pool: it
	// stays until their cooldown is over. ok is false if the pool is in use, or stays however long it is unused.
	Goes func(ledger.Pool) (at time.Time, ok bool)
	// Answers are the CREATEs of claims that this process has answered. Nil: none.
	Answers *promise.Answers
	// MaxPools is how many pools a workspace may have. It does not limit the platform. Default: any number.
	MaxPools int
	// Feed delivers the events of all workspaces.
	Feed *feed.Feed
	// Queue is the queue of the controller. The ledger adds pools to it, too.
	Queue inbox.Queue
	// Seen is called for every pool that was created (before is nil), changed, or deleted (after is nil). It must not
	// block.
	Seen func(in ledger.ClusterName, before, after *ipamv1alpha1.IPPool)
	// Deleted is called for a pool whose deletion was seen, and which is still open in the ledger. It must not block.
	Deleted func(h ledger.Holder, last *ipamv1alpha1.IPPool)
}

// New makes the pool controller, and adds it to mgr.
func New(mgr mcmanager.Manager, opts Options) (*Reconciler, error) {
	r := &Reconciler{Options: opts, clusters: mgr, now: time.Now}
	local := mgr.GetLocalManager()
	return r, builder.TypedControllerManagedBy[mcreconcile.Request](local).
		Named("pool").
		WithOptions(inbox.Controlled(mgr.GetLogger(), opts.Queue, 16, func(req mcreconcile.Request) []any {
			return []any{"cluster", r.Directory.Ledger(req.ClusterName), "pool", req.Name}
		})).
		WatchesRawSource(feed.Platform(local, &ipamv1alpha1.IPPool{}, r.onPool)).
		WatchesRawSource(feed.Platform(local, &ipamv1alpha1.IPClass{}, r.onClass)).
		WatchesRawSource(opts.Feed.Tenants(&ipamv1alpha1.IPPool{}, r.onPool)).
		Complete(mcreconcile.NewClusterNotFoundWrapper(r))
}

// firstBlock is how long the first reconcile of a derived pool waits after the pool's IPPool was created. The CREATE
// that makes the pool also binds its first block. On a server that is not busy, the claim of that CREATE is stored
// within firstBlock. So the first status of the pool shows the block already.
const firstBlock = 100 * time.Millisecond

// onPool queues a pool that was created, changed or deleted, and the pools that may have waited for this event.
func (r *Reconciler) onPool(name multicluster.ClusterName, cl cluster.Cluster) feed.EventHandler {
	add := func(q inbox.Queue, pool client.Object) { q.Add(inbox.Request(name, client.ObjectKeyFromObject(pool))) }
	wakeChildren := func(q inbox.Queue, parents ...*ipamv1alpha1.IPPool) {
		for _, parent := range parents {
			for _, child := range r.children(r.Directory.Workspace(r.Directory.Ledger(name)), parent) {
				q.Add(child)
			}
		}
	}
	return feed.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q inbox.Queue) {
			if made := e.Object.(*ipamv1alpha1.IPPool); made.Spec.ClassRef != nil && made.Status.AllocatedCIDR == "" {
				q.AddAfter(inbox.Request(name, client.ObjectKeyFromObject(made)), firstBlock)
			} else {
				add(q, e.Object)
			}
			wakeChildren(q, e.Object.(*ipamv1alpha1.IPPool))
			r.wakeRoots(q, r.Directory.Ledger(name), e.Object.(*ipamv1alpha1.IPPool))
			r.Seen(r.Directory.Ledger(name), nil, e.Object.(*ipamv1alpha1.IPPool))
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q inbox.Queue) {
			before, after := e.ObjectOld.(*ipamv1alpha1.IPPool), e.ObjectNew.(*ipamv1alpha1.IPPool)
			if before.Generation != after.Generation || !after.DeletionTimestamp.IsZero() ||
				len(before.Finalizers) != len(after.Finalizers) || regressed(before, after) {
				add(q, after)
			}
			if before.Generation != after.Generation || resolve.Ready(before) != resolve.Ready(after) {
				wakeChildren(q, before, after)
				r.wakeRoots(q, r.Directory.Ledger(name), after)
			}
			r.Seen(r.Directory.Ledger(name), before, after)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q inbox.Queue) {
			gone := e.Object.(*ipamv1alpha1.IPPool)
			add(q, gone) // its reconcile forgets it
			wakeChildren(q, gone)
			if gone.Spec.ClassRef == nil { // a derived pool blocks no other pool by its IPPool, and there may be many
				r.wakeUnready(ctx, name, cl, q)
			}
			r.wakeRoots(q, r.Directory.Ledger(name), gone)
			r.Seen(r.Directory.Ledger(name), gone, nil)
			if !e.DeleteStateUnknown {
				r.gone(r.Directory.Ledger(name), gone)
			}
		},
	}
}

// regressed reports whether a pool shows less of the ledger than before, or was listed again. kcp may have been
// restored from an older copy, and the pool may show the figures of that copy. If nobody uses the pool, no change of
// the ledger corrects them.
func regressed(before, after *ipamv1alpha1.IPPool) bool {
	was, is := before.Status.Ledger, after.Status.Ledger
	return before.ResourceVersion == after.ResourceVersion ||
		was != nil && (is == nil || is.ID != was.ID || is.Changes < was.Changes)
}

// gone reports a pool as deleted if its deletion was seen, and the pool is open in the ledger: a user has removed its
// finalizer. If the pool was not compared with the ledger, it is left to the sweep. So is a pool that a list left out.
func (r *Reconciler) gone(in ledger.ClusterName, pool *ipamv1alpha1.IPPool) {
	id := ledger.PoolID(pool.UID)
	if known, ok := r.Ledger.Pools.Get(id); ok && known.State == ledger.PoolOpen && !r.Ledger.Recovery.Frozen(id) {
		r.Deleted(ledger.Holder{Claim: ledger.ClaimID(id), Cluster: in, Name: pool.Name}, pool)
	}
}

// Named requeues the pools whose answer depends on the path of a workspace, now that the path is known: child pools
// that may be served or refused, and the root pools of the workspace.
func (r *Reconciler) Named(workspace directory.Workspace) {
	for _, pool := range slices.Concat(r.waiting.named(workspace), r.roots.of(workspace.Cluster)) {
		r.Queue.Add(pool)
	}
}

// Requeue requeues the pools of a workspace that gives up the export, or is served again. When the workspace gives up
// the export, the finalizers of its deleted pools are removed, even while others hold blocks of these pools. When the
// workspace is served again, a deleted pool keeps its finalizer while it is in use.
func (r *Reconciler) Requeue(cluster ledger.ClusterName) {
	ctx, name := context.Background(), r.Directory.Engaged(cluster)
	if cl, err := r.clusters.GetCluster(ctx, name); err == nil {
		r.wakeUnready(ctx, name, cl, r.Queue)
	}
}

// wakeUnready requeues the pools of a workspace that have no CIDR yet, or are deleted. A root pool may get its CIDR
// once the pool that it overlaps is gone, and a deleted pool may lose its finalizer.
func (r *Reconciler) wakeUnready(
	ctx context.Context, name multicluster.ClusterName, cl cluster.Cluster, q inbox.Queue,
) {
	list := &ipamv1alpha1.IPPoolList{}
	if err := cl.GetCache().List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "list pools", "cluster", r.Directory.Ledger(name))
		return
	}
	for i := range list.Items {
		if !resolve.Ready(&list.Items[i]) {
			q.Add(inbox.Request(name, client.ObjectKeyFromObject(&list.Items[i])))
		}
	}
}
