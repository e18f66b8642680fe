package capi

import (
	"context"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/packed"
)

// workers reconcile claims at the same time. Most of it is waiting for the answer to CREATE.
const workers = 8

// Setup has mgr run the controller, on the leader only. Its cluster has IPAddressClaims, IPPools
// and IPClasses. It may lack the kinds of Cluster API at first: the controller begins when they
// are installed.
func Setup(mgr manager.Manager) error {
	r := &Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}
	return builder.ControllerManagedBy(mgr).
		Named("capi").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, CacheSyncTimeout: math.MaxInt64}).
		For(&capiv1.IPAddressClaim{}, builder.WithPredicates(ofOurs)).
		Watches(&capiv1.IPAddress{}, handler.EnqueueRequestsFromMapFunc(toClaimOfAddress)).
		Watches(&ipamv1alpha1.IPClaim{}, handler.EnqueueRequestsFromMapFunc(toConsumer)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.toClaimsOfCluster), builder.WithPredicates(released)).
		Watches(&ipamv1alpha1.IPPool{}, handler.EnqueueRequestsFromMapFunc(r.toClaimsOfPool), builder.WithPredicates(usable)).
		Watches(&ipamv1alpha1.IPClass{}, handler.EnqueueRequestsFromMapFunc(r.toClaimsOfPool), builder.WithPredicates(usable)).
		Complete(r)
}

// ofOurs passes claims for our pools.
var ofOurs = predicate.NewPredicateFuncs(func(object client.Object) bool {
	return managed(object.(*capiv1.IPAddressClaim).Spec.PoolRef)
})

// released passes the events by which a Cluster no longer keeps its claims waiting. Claims come by
// themselves at the start.
var released = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return clusterPaused(e.ObjectOld.(*clusterv1.Cluster)) && !clusterPaused(e.ObjectNew.(*clusterv1.Cluster))
	},
}

// usable passes the events by which claims of a pool or class can begin, or end.
var usable = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return annotated(e.ObjectOld) && !annotated(e.ObjectNew) ||
			sourceOf(e.ObjectOld).family != sourceOf(e.ObjectNew).family
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

// toConsumer maps an IPClaim, as the cache keeps it, to its IPAddressClaim.
func toConsumer(_ context.Context, object client.Object) []reconcile.Request {
	key, ok := consumerOf(packed.Whole(object).(*ipamv1alpha1.IPClaim))
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// toClaimsOfCluster maps a Cluster to its IPAddressClaims.
func (r *Reconciler) toClaimsOfCluster(ctx context.Context, object client.Object) []reconcile.Request {
	return r.claims(ctx, func(claim *capiv1.IPAddressClaim) bool {
		return clusterName(claim) == object.GetName()
	}, client.InNamespace(object.GetNamespace()))
}

// toClaimsOfPool maps an IPPool or IPClass to the IPAddressClaims that name it.
func (r *Reconciler) toClaimsOfPool(ctx context.Context, object client.Object) []reconcile.Request {
	kind := kindPool
	if _, ok := object.(*ipamv1alpha1.IPClass); ok {
		kind = kindClass
	}
	ref := capiv1.IPPoolReference{APIGroup: ipamv1alpha1.GroupName, Kind: kind, Name: object.GetName()}
	return r.claims(ctx, func(claim *capiv1.IPAddressClaim) bool { return claim.Spec.PoolRef == ref })
}

// claims are the requests for the claims in the cache that match.
func (r *Reconciler) claims(ctx context.Context, match func(*capiv1.IPAddressClaim) bool, opts ...client.ListOption) []reconcile.Request {
	list := &capiv1.IPAddressClaimList{}
	err := r.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...)
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
