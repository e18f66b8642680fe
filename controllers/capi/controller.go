package capi

import (
	"context"
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	crsource "sigs.k8s.io/controller-runtime/pkg/source"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/packed"
)

// workers is how many claims are reconciled at the same time. Mostly they wait for the answer to a CREATE.
const workers = 8

// patience is the longest pause before a claim is tried again after an error. No event tells when a server that was
// away is back.
const patience = 30 * time.Second

// passTimeout bounds a reconcile, so that a server that does not answer cannot occupy all workers.
const passTimeout = time.Minute

// Options of the controller. The zero value serves all IPAddressClaims with the pools of their own
// cluster.
type Options struct {
	// Workspace is beside the management cluster, and has the IPClaims, IPPools and IPClasses. The same manager must run
	// it. Default: they are in the manager's own cluster.
	Workspace cluster.Cluster
	// Names say which IPClaim is that of an IPAddressClaim. Required with Workspace.
	Names Names
	// Scope says which IPAddressClaims are served. Default: all.
	Scope Scope
}

// Setup adds the controller to mgr, for the leader only. The manager's cluster has the IPAddressClaims. If the kinds of
// Cluster API are not installed, the controller begins when they are.
func Setup(mgr manager.Manager, opts Options) error {
	pools := cluster.Cluster(mgr)
	if opts.Workspace != nil {
		pools = opts.Workspace
	}
	r := &Reconciler{
		Management: Management{Server: Server{mgr.GetClient(), mgr.GetAPIReader()}, Scope: opts.Scope},
		Claims:     Claims{Server: Server{pools.GetClient(), pools.GetAPIReader()}, Names: opts.Names},
	}
	served := []predicate.Predicate{ofOurs}
	if opts.Names.beside() {
		served = append(served, r.memory.watched())
	}
	b := builder.ControllerManagedBy(mgr).
		Named("capi").
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers, CacheSyncTimeout: math.MaxInt64, ReconciliationTimeout: passTimeout,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, patience),
		}).
		For(&capiv1.IPAddressClaim{}, builder.WithPredicates(served...)).
		Watches(&capiv1.IPAddress{}, handler.EnqueueRequestsFromMapFunc(toClaimOfAddress)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.Management.toClaimsOfCluster),
			builder.WithPredicates(released))
	watch := func(object client.Object, requests handler.MapFunc, which ...predicate.Predicate) {
		b.WatchesRawSource(crsource.Kind(pools.GetCache(), object, handler.EnqueueRequestsFromMapFunc(requests), which...))
	}
	watch(&ipamv1alpha1.IPClaim{}, opts.Names.toConsumer)
	watch(&ipamv1alpha1.IPPool{}, r.Management.toClaimsOfPool, usable)
	if !opts.Names.beside() {
		watch(&ipamv1alpha1.IPClass{}, r.Management.toClaimsOfPool, usable)
	}
	return b.Complete(r)
}

// ofOurs passes the IPAddressClaims that the controller serves, or has served.
var ofOurs = predicate.NewPredicateFuncs(func(object client.Object) bool {
	return ours(object.(*capiv1.IPAddressClaim))
})

// released passes the events after which a Cluster no longer keeps its claims waiting. At the start it passes none,
// because the claims have events of their own.
var released = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return clusterPaused(e.ObjectOld.(*clusterv1.Cluster)) && !clusterPaused(e.ObjectNew.(*clusterv1.Cluster))
	},
}

// usable passes the events of a pool or class after which waiting claims may go on: it was created, its spec has
// changed, it is no longer paused, or its family has changed.
var usable = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			annotated(e.ObjectOld) && !annotated(e.ObjectNew) || sourceOf(e.ObjectOld).family != sourceOf(e.ObjectNew).family
	},
}

// toClaimOfAddress maps an IPAddress to its IPAddressClaim.
func toClaimOfAddress(_ context.Context, object client.Object) []reconcile.Request {
	key := client.ObjectKeyFromObject(object)
	if !belongs(object.(*capiv1.IPAddress), key) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// toConsumer maps a cached IPClaim to its IPAddressClaim.
func (n Names) toConsumer(_ context.Context, object client.Object) []reconcile.Request {
	key, ok := n.consumer(packed.Whole(object).(*ipamv1alpha1.IPClaim))
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// toClaimsOfCluster maps a Cluster to its IPAddressClaims.
func (m Management) toClaimsOfCluster(ctx context.Context, object client.Object) []reconcile.Request {
	return m.claims(ctx, func(claim *capiv1.IPAddressClaim) bool {
		return clusterName(claim) == object.GetName()
	}, client.InNamespace(object.GetNamespace()))
}

// toClaimsOfPool maps an IPPool or IPClass to the IPAddressClaims that name it. An IPPool is also mapped to those that
// name a class which it backs.
func (m Management) toClaimsOfPool(ctx context.Context, object client.Object) []reconcile.Request {
	return m.claims(ctx, func(claim *capiv1.IPAddressClaim) bool {
		asked := claim.Spec.PoolRef
		if pool, ok := object.(*ipamv1alpha1.IPPool); ok {
			return offers(pool, asked)
		}
		return managed(asked) && asked.Kind == kindClass && asked.Name == object.GetName()
	})
}

// claims returns requests for the cached IPAddressClaims that match.
func (m Management) claims(
	ctx context.Context, match func(*capiv1.IPAddressClaim) bool, opts ...client.ListOption,
) []reconcile.Request {
	list := &capiv1.IPAddressClaimList{}
	err := m.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...)
	if meta.IsNoMatchError(err) {
		return nil // Cluster API is not installed yet
	}
	if err != nil {
		log.FromContext(ctx).Error(fmt.Errorf("list IPAddressClaims: %w", err), "claims wait for an event of their own")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if match(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// Scope says which IPAddressClaims the controller serves. The zero value is all.
type Scope struct {
	// Namespace of the IPAddressClaims. Empty: any.
	Namespace string
	// Filter is the value that the label cluster.x-k8s.io/watch-filter of the IPAddressClaims must have. Empty: any, or
	// none.
	Filter string
}

// has reports whether an IPAddressClaim is to be served.
func (s Scope) has(claim *capiv1.IPAddressClaim) bool {
	return s.reaches(claim.Namespace) && (s.Filter == "" || claim.Labels[clusterv1.WatchLabel] == s.Filter)
}

// reaches reports whether IPAddressClaims of a namespace are to be served.
func (s Scope) reaches(namespace string) bool { return s.Namespace == "" || s.Namespace == namespace }
