package claim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/event"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/feed"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/packed"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
)

// Options configure the controller. All fields without a default are required.
type Options struct {
	Ledger    views.Ledger
	Releases  Releases
	Catalog   *catalog.Catalog
	Directory *directory.Directory
	// Feed delivers the events of all workspaces.
	Feed *feed.Feed
	// Queue is the queue of the controller. The ledger adds claims to it, too.
	Queue inbox.Queue
	// Listed queues a claim that the first list of a cache has shown with a block. Such claims come after all others.
	Listed func(mcreconcile.Request)
	// Compare compares the ledger with the published records of a pool, and of the other pools in its space. It reports
	// whether the ledger has lost nothing of them, so that the pool may give blocks.
	Compare func(context.Context, ledger.PoolID) (bool, error)
	// Complete reports whether the ledger has every pool that a claim's status may name, and has lost nothing of these
	// pools. The claim is of this workspace.
	Complete func(context.Context, ledger.ClusterName, client.Object) (bool, error)
	// Ranges publishes the pools that are made for claims, and ends their releases.
	Ranges Ranges
	// Doubts are the claims that are compared with the ledger although they seem to be bound. Default: none.
	Doubts *Doubts
	// Answers remembers the CREATEs that were answered. Default: none is remembered.
	Answers *promise.Answers
	// Sees returns an error while the caches may be stale. CREATEs are not answered then.
	Sees func() error
	// MaxPools is how many pools a workspace may have, including the pools that were made for its scopes. Default: any
	// number.
	MaxPools int
	// MaxWaits limits the pools at which the claims of one workspace wait. A pool counts once for each claim that waits
	// there. Default: any number.
	MaxWaits int
	// Unmet is the unmetPolicy of a claim if neither the claim nor its class has one. Claims for a range, and claims by a
	// class of networks, are refused instead. Default: Wait.
	Unmet ipamv1alpha1.UnmetPolicy
	// Workers is how many claims are reconciled at the same time. Default 16.
	Workers int
	// Tracer makes a span of each reconcile and of each answer. Default: none.
	Tracer trace.Tracer
}

// New makes the claim controller, and adds it to mgr.
func New(mgr mcmanager.Manager, opts Options) (*Reconciler, error) {
	r := &Reconciler{
		Options: opts, clusters: mgr, clock: clock.RealClock{}, started: sync.OnceValue(time.Now),
		waiting: waiting{known: opts.Directory}, memory: memory{clock: clock.RealClock{}},
		formers: formers{clock: clock.RealClock{}}, maker: record.Maker{Clock: clock.RealClock{}},
		limits: served,
	}
	local := mgr.GetLocalManager()
	return r, builder.TypedControllerManagedBy[mcreconcile.Request](local).
		Named("claim").
		WithOptions(inbox.Controlled(mgr.GetLogger(), opts.Queue, cmp.Or(opts.Workers, 16), r.fields)).
		WatchesRawSource(feed.Platform(local, &ipamv1alpha1.IPClaim{}, r.onClaim)).
		WatchesRawSource(feed.Platform(local, &ipamv1alpha1.IPAllocation{}, r.onRecord)).
		WatchesRawSource(feed.Platform(local, &ipamv1alpha1.IPPool{}, r.onPool)).
		WatchesRawSource(feed.Platform(local, &ipamv1alpha1.IPClass{}, r.waiting.onClass)).
		WatchesRawSource(opts.Feed.Tenants(&ipamv1alpha1.IPClaim{}, r.onClaim)).
		WatchesRawSource(opts.Feed.Tenants(&ipamv1alpha1.IPAllocation{}, r.onRecord)).
		WatchesRawSource(opts.Feed.Tenants(&ipamv1alpha1.IPPool{}, r.onPool)).
		Complete(mcreconcile.NewClusterNotFoundWrapper(r.traced()))
}

// fields returns the workspace and the claim, for every line of the log.
func (r *Reconciler) fields(req mcreconcile.Request) []any {
	return []any{"cluster", r.Directory.Ledger(req.ClusterName), "claim", req.NamespacedName.String()}
}

// Arrived requeues the claims of a workspace that is served again. They were left alone while the workspace was giving
// up the export. If the workspace is not engaged yet, Arrived does nothing: the first list will show all its claims.
//
// One request without a name stands for all claims, and its pass lists them. All workspaces share the caller of
// Arrived, and a tenant can make its binding ready again as often as it likes: a list each time would delay the events
// of the other workspaces.
func (r *Reconciler) Arrived(cluster ledger.ClusterName) {
	name := r.Directory.Engaged(cluster)
	if _, err := r.clusters.GetCluster(context.Background(), name); err == nil {
		r.Queue.Add(inbox.Request(name, client.ObjectKey{}))
	}
}

// requeueAll requeues the claims of a workspace.
func (r *Reconciler) requeueAll(ctx context.Context, name multicluster.ClusterName) error {
	cl, err := r.clusters.GetCluster(ctx, name)
	if err != nil {
		return err
	}
	list := &ipamv1alpha1.IPClaimList{}
	if err := cl.GetCache().List(ctx, list); err != nil {
		return fmt.Errorf("list claims: %w", err)
	}
	for i := range list.Items {
		r.Queue.Add(inbox.Request(name, client.ObjectKeyFromObject(&list.Items[i])))
	}
	return nil
}

// Departed ends the waits of the claims of a workspace that is no longer bound.
func (r *Reconciler) Departed(cluster ledger.ClusterName) {
	unmet.leave(r.Directory.Engaged(cluster))
	for _, claim := range r.waiting.of(cluster) {
		r.abandon(claim)
	}
}

// Changed requeues the waiting claims of a workspace that was engaged or disengaged. If the cache no longer shows a
// claim, the claim's pass ends its waits.
func (r *Reconciler) Changed(name multicluster.ClusterName) {
	for _, claim := range r.waiting.of(r.Directory.Ledger(name)) {
		r.Queue.Add(claim)
	}
}

// Named requeues the claims whose answer may change because a workspace has a new path.
func (r *Reconciler) Named(workspace directory.Workspace) {
	for _, claim := range r.waiting.wake(topicsOfWorkspace(workspace)...) {
		r.Queue.Add(claim)
	}
}

// onClaim queues a claim that was created, changed or deleted. It also hands a deleted claim to the releases, with its
// UID and policy as last seen.
func (r *Reconciler) onClaim(name multicluster.ClusterName, cl cluster.Cluster) feed.EventHandler {
	return feed.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q inbox.Queue) {
			request := inbox.Request(name, client.ObjectKeyFromObject(e.Object))
			r.Answers.Stored(ledger.Holder{
				Cluster: r.Directory.Ledger(name), Namespace: request.Namespace,
				Claim: ledger.ClaimID(packed.AllocationID(e.Object)),
			})
			if e.IsInInitialList && packed.Allocated(e.Object) {
				r.Listed(request)
				return
			}
			q.Add(request)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q inbox.Queue) {
			q.Add(inbox.Request(name, client.ObjectKeyFromObject(e.ObjectNew)))
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q inbox.Queue) {
			claim := packed.Whole(e.Object).(*ipamv1alpha1.IPClaim)
			request := inbox.Request(name, client.ObjectKeyFromObject(claim))
			holder := promise.HolderOf(r.Directory.Ledger(name), claim)
			r.Ledger.Waits.Withdraw(holder.Claim)
			r.Answers.Stored(holder)
			r.memory.forget(claim.UID)
			r.Doubts.drop(holder.Claim)
			r.noteFormer(ctx, holder, claim)
			if e.DeleteStateUnknown {
				r.Releases.Missed(holder, claim)
			} else {
				r.memory.deleted(request, claim)
				r.Releases.Deleted(holder, claim, recordOf(ctx, cl.GetCache(), claim))
			}
			q.Add(request)
		},
	}
}

// recordOf returns the record of a claim, as the cache shows it, or nil.
func recordOf(ctx context.Context, cache client.Reader, claim *ipamv1alpha1.IPClaim) *ipamv1alpha1.IPAllocation {
	slot, err := record.Find(ctx, cache, client.ObjectKeyFromObject(claim))
	if err != nil || !records(slot.Record, claim) {
		return nil
	}
	return slot.Record
}

// onRecord reacts to records that are created or deleted. If the cache does not show the claim of a new record,
// onRecord reports the claim as missed. If a retained record is seen deleted, onRecord hints at the holder of its
// block. If the record of a claim is deleted, onRecord requeues the claim, which writes the record again. It also
// requeues the claims that wait for the name of a deleted record.
func (r *Reconciler) onRecord(name multicluster.ClusterName, cl cluster.Cluster) feed.EventHandler {
	return feed.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, _ inbox.Queue) {
			// The claim of a new record may be missing: the writer of the record may have read the claim from a stale cache,
			// after the claim's deletion was handled, or after a restore of kcp, which then never knew the claim.
			if !claimed(ctx, cl, e.Object) {
				r.Releases.Missed(r.holderIn(name, e.Object), nil)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q inbox.Queue) {
			record := client.ObjectKeyFromObject(e.Object)
			switch claim, _, retained := packed.HeldBy(e.Object); {
			case !retained:
				q.Add(inbox.Request(name, client.ObjectKey{Namespace: record.Namespace, Name: claim}))
			case !e.DeleteStateUnknown:
				r.Releases.Suspect(r.holderIn(name, e.Object))
			}
			for _, claim := range r.waiting.on(recordTopicOf(r.Directory.Ledger(name), record.Namespace, record.Name)) {
				q.Add(claim)
			}
		},
	}
}

// claimed reports whether the cache shows the claim that a record names.
func claimed(ctx context.Context, cl cluster.Cluster, record client.Object) bool {
	name, uid, retained := packed.HeldBy(record)
	if retained {
		return true // a retained record needs no claim
	}
	claim, err := packed.Kept(ctx, cl)(&ipamv1alpha1.IPClaim{},
		client.ObjectKey{Namespace: record.GetNamespace(), Name: name})
	return err == nil && claim != nil && (claim.GetUID() == uid || packed.AllocationID(claim) == uid)
}

// holderIn returns the holder of a record's block.
func (r *Reconciler) holderIn(name multicluster.ClusterName, record client.Object) ledger.Holder {
	claim, uid, _ := packed.HeldBy(record)
	return ledger.Holder{
		Claim: ledger.ClaimID(uid), Cluster: r.Directory.Ledger(name), Namespace: record.GetNamespace(), Name: claim,
	}
}

// onPool requeues the claims whose answer may change because a pool has changed.
func (r *Reconciler) onPool(name multicluster.ClusterName, _ cluster.Cluster) feed.EventHandler {
	wake := func(q inbox.Queue, pools ...*ipamv1alpha1.IPPool) {
		for _, claim := range r.waiting.wake(topicsOfPool(r.Directory.Ledger(name), pools...)...) {
			q.Add(claim)
		}
	}
	return feed.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q inbox.Queue) {
			pool := e.Object.(*ipamv1alpha1.IPPool)
			wake(q, pool)
			r.announced.note(pool)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q inbox.Queue) {
			before, after := e.ObjectOld.(*ipamv1alpha1.IPPool), e.ObjectNew.(*ipamv1alpha1.IPPool)
			if poolMatters(before, after) {
				wake(q, before, after)
			}
			if before.UID != after.UID {
				r.announced.drop(before.UID)
			}
			r.announced.note(after)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q inbox.Queue) {
			pool := e.Object.(*ipamv1alpha1.IPPool)
			wake(q, pool)
			r.announced.drop(pool.UID)
		},
	}
}

// poolMatters reports whether a change of a pool may change the answer to a claim. Its spec, labels and readiness
// matter, and whether the ledger has followed its spec. Its usage does not matter: the ledger offers room that becomes
// free.
func poolMatters(before, after *ipamv1alpha1.IPPool) bool {
	return before.UID != after.UID || before.Generation != after.Generation ||
		before.Status.ObservedGeneration != after.Status.ObservedGeneration ||
		resolve.Ready(before) != resolve.Ready(after) || sound(before) != sound(after) ||
		!maps.Equal(before.Labels, after.Labels)
}

// sound reports whether a pool is Ready. A pool that has its CIDR is not Ready while it is frozen, or lost from the
// ledger, or while it serves none of its classes because they differ in uniqueWithin.
func sound(pool *ipamv1alpha1.IPPool) bool {
	return meta.IsStatusConditionTrue(pool.Status.Conditions, ipamv1alpha1.ConditionReady)
}

// onClass requeues the claims whose answer may change because a class has changed.
func (w *waiting) onClass(multicluster.ClusterName, cluster.Cluster) feed.EventHandler {
	wake := func(obj client.Object, q inbox.Queue) {
		for _, claim := range w.wake(topicsOfClass(obj.(*ipamv1alpha1.IPClass))...) {
			q.Add(claim)
		}
	}
	return feed.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q inbox.Queue) { wake(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q inbox.Queue) {
			before, after := e.ObjectOld.(*ipamv1alpha1.IPClass), e.ObjectNew.(*ipamv1alpha1.IPClass)
			if before.Generation != after.Generation || resolve.IsDefault(before) != resolve.IsDefault(after) {
				wake(after, q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q inbox.Queue) { wake(e.Object, q) },
	}
}
