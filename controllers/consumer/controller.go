package consumer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/feed"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/packed"
)

// looksPerSecond limits the load on the servers. With more claims than it allows for,
// workspaces take turns, and a workspace with many claims has each of them checked less
// often than the interval says.
const looksPerSecond = 50

// workers check claims at the same time. Eight endpoints that do not answer occupy all of them.
const workers = 8 * looksPerEndpoint

// ByConsumer is the name of the field index that finds claims by their consumer.
const ByConsumer = "spec.ownerRef"

// IndexClaimByConsumer is the indexer of that index.
var IndexClaimByConsumer client.IndexerFunc = func(obj client.Object) []string {
	ref := packed.Consumer(obj)
	if ref == nil {
		return nil
	}
	return []string{indexKey(ref.APIGroup, ref.Kind, ref.Namespace, ref.Name)}
}

func indexKey(parts ...string) string { return strings.Join(parts, "/") }

// New makes the consumer controller and has mgr run it, on the leader only. The feed
// tells it what happens in the workspaces.
func New(mgr mcmanager.Manager, workspaces *feed.Feed, opts Options) error {
	if err := opts.Validate(); err != nil {
		return err
	}
	r := newReconciler(opts, flowcontrol.NewTokenBucketRateLimiter(looksPerSecond, looksPerSecond))
	local := mgr.GetLocalManager()
	return builder.TypedControllerManagedBy[mcreconcile.Request](local).
		Named("consumer").
		WithOptions(r.running(mgr.GetLogger())).
		WatchesRawSource(feed.Platform(local, &ipamv1alpha1.IPClaim{}, r.onClaim)).
		WatchesRawSource(feed.Platform(local, &ipamv1alpha1.IPPool{}, r.onPool)).
		WatchesRawSource(workspaces.Tenants(&ipamv1alpha1.IPClaim{}, r.onClaim)).
		WatchesRawSource(workspaces.Tenants(&ipamv1alpha1.IPPool{}, r.onPool)).
		Complete(mcreconcile.NewClusterNotFoundWrapper(r))
}

func newReconciler(opts Options, turns limiter) *Reconciler {
	return &Reconciler{Options: opts.completed(), limiter: turns, queue: inbox.NewQueue("consumer")}
}

// running is how the controller is to be run.
func (r *Reconciler) running(logger logr.Logger) controller.TypedOptions[mcreconcile.Request] {
	return inbox.Controlled(logger, r.queue, workers, func(req mcreconcile.Request) []any {
		return []any{"cluster", r.Directory.Ledger(req.ClusterName), "claim", req.NamespacedName.String()}
	})
}

// onClaim queues a new claim after a delay of its own, so that not all are checked together, and, when a
// claim goes, the claims whose consumer it was. The consumer of a claim never changes, so updates are
// ignored.
func (r *Reconciler) onClaim(name multicluster.ClusterName, cl cluster.Cluster) feed.EventHandler {
	return feed.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q inbox.Queue) {
			if packed.Consumer(e.Object) != nil {
				young := max(0, r.MinAge-r.Clock.Since(e.Object.GetCreationTimestamp().Time))
				q.AddAfter(inbox.Request(name, client.ObjectKeyFromObject(e.Object)), young+rand.N(r.Interval))
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q inbox.Queue) {
			if packed.Consumer(e.Object) != nil {
				q.Add(inbox.Request(name, client.ObjectKeyFromObject(e.Object)))
			}
			r.wake(ctx, name, cl, q, "IPClaim", e.Object)
		},
	}
}

// onPool requeues the claims whose consumer was a pool.
func (r *Reconciler) onPool(name multicluster.ClusterName, cl cluster.Cluster) feed.EventHandler {
	return feed.Funcs{
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q inbox.Queue) {
			r.wake(ctx, name, cl, q, "IPPool", e.Object)
		},
	}
}

// wake queues a request that stands for the claims whose consumer has just gone, if there are any. All workspaces share the
// handlers, and a tenant may delete the consumer of all its claims again and again: a list each time would keep the
// events of the others waiting.
func (r *Reconciler) wake(ctx context.Context, name multicluster.ClusterName, cl cluster.Cluster, q inbox.Queue, kind string, gone client.Object) {
	list := &ipamv1alpha1.IPClaimList{}
	if err := cl.GetCache().List(ctx, list, claimsOf(kind, client.ObjectKeyFromObject(gone)), client.Limit(1)); err != nil {
		log.FromContext(ctx).Error(err, "look for claims of a consumer", "cluster", r.Directory.Ledger(name))
		return
	}
	if len(list.Items) > 0 {
		q.Add(inbox.Request(name, client.ObjectKey{Namespace: gone.GetNamespace(), Name: kind + "/" + gone.GetName()}))
	}
}

// wakeAll requeues the claims for which a request of wake stands.
func (r *Reconciler) wakeAll(ctx context.Context, req mcreconcile.Request, cl cluster.Cluster) error {
	kind, name, _ := strings.Cut(req.Name, "/")
	list := &ipamv1alpha1.IPClaimList{}
	if err := cl.GetCache().List(ctx, list, claimsOf(kind, client.ObjectKey{Namespace: req.Namespace, Name: name})); err != nil {
		return fmt.Errorf("list the claims of a consumer: %w", err)
	}
	for i := range list.Items {
		r.queue.Add(inbox.Request(req.ClusterName, client.ObjectKeyFromObject(&list.Items[i])))
	}
	return nil
}

// claimsOf selects the claims of a consumer of this API.
func claimsOf(kind string, consumer client.ObjectKey) client.MatchingFields {
	return client.MatchingFields{ByConsumer: indexKey(ipamv1alpha1.GroupName, kind, consumer.Namespace, consumer.Name)}
}
