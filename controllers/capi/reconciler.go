package capi

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
)

const (
	// Finalizer keeps an IPAddressClaim until its address is given back. It also keeps an IPClaim as long as its
	// IPAddressClaim is there.
	Finalizer = ipamv1alpha1.FinalizerAddressClaim
	// FinalizerAddress keeps an IPAddress from being deleted before its IPAddressClaim. The contract proposes this name.
	FinalizerAddress = "ipam.cluster.x-k8s.io/protect-address"
)

// Reconciler gives an IPAddressClaim its IPAddress. It is safe for concurrent use.
type Reconciler struct {
	// Management has the IPAddressClaims and IPAddresses. Required.
	Management Management
	// Claims has the IPClaims, and the pools that they are from. Required.
	Claims Claims

	memory  memory
	gaveWay sync.Map // by the key of an IPAddressClaim whose IPClaim gave way to a stray, the key of the stray
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if !r.Management.Scope.reaches(req.Namespace) {
		return reconcile.Result{}, nil // the cache may lack this namespace
	}
	r.memory.begin(time.Now())
	claim := &capiv1.IPAddressClaim{}
	err := r.Management.Get(ctx, req.NamespacedName, claim)
	if apierrors.IsNotFound(err) {
		return patch.Requeue(r.abandoned(ctx, req.NamespacedName))
	}
	if err != nil || !ours(claim) || !r.Management.Scope.has(claim) {
		return reconcile.Result{}, err
	}
	return r.reconcile(ctx, claim)
}

// reconcile reconciles a claim that exists, and is in the scope.
func (r *Reconciler) reconcile(ctx context.Context, claim *capiv1.IPAddressClaim) (reconcile.Result, error) {
	why, err := r.paused(ctx, claim)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case why != "":
		log.FromContext(ctx).V(1).Info("left alone", "reason", why)
		return patch.Requeue(r.pin(ctx, claim))
	case claim.DeletionTimestamp != nil:
		return patch.Requeue(r.release(ctx, claim))
	case !managed(claim.Spec.PoolRef):
		return reconcile.Result{}, nil // it keeps its address until it is deleted
	}
	var after time.Duration
	result, err := patch.Requeue(patch.Reconcile(ctx, r.Management.Client, claim, func(ctx context.Context) (err error) {
		after, err = r.serve(ctx, claim)
		return err
	}))
	if err == nil && result.IsZero() {
		result.RequeueAfter = after
	}
	return result, err
}

// serve gives a claim its address, or says in its status why it has none. after is when to try again; 0: an event will
// come.
func (r *Reconciler) serve(ctx context.Context, claim *capiv1.IPAddressClaim) (after time.Duration, err error) {
	if controllerutil.AddFinalizer(claim, Finalizer) {
		return 0, nil // the finalizer is stored before anything is taken; that has an event
	}
	err = r.provide(ctx, claim)
	if refused := (*refusal)(nil); errors.As(err, &refused) {
		refuse(claim, refused)
		return refused.after, nil
	}
	return 0, err
}

// provide makes the IPClaim of a claim, and then its IPAddress. The error is a refusal if there is no address for the
// claim. A claim that has an address keeps it even if its class is gone.
func (r *Reconciler) provide(ctx context.Context, claim *capiv1.IPAddressClaim) error {
	key := client.ObjectKeyFromObject(claim)
	held, err := r.Claims.held(ctx, key)
	if err != nil {
		return err
	}
	pool, err := r.Claims.source(ctx, claim.Spec.PoolRef)
	if _, refused := errors.AsType[*refusal](err); err != nil && (!refused || held == nil || held.Status.Address == "") {
		return err
	}
	found, err := r.Management.address(ctx, key)
	if err != nil {
		return err
	}
	bound, err := r.ensureClaim(ctx, claim, pool, held)
	if err != nil {
		return err
	}
	if bound.Status.Address == "" {
		return answer(bound)
	}
	return r.publish(ctx, claim, bound, pool, found)
}
