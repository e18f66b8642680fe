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
	// Finalizer holds an IPAddressClaim until its address is given back, and its IPClaim for as
	// long as the IPAddressClaim is there.
	Finalizer = ipamv1alpha1.FinalizerAddressClaim
	// FinalizerAddress protects an IPAddress from being deleted before its IPAddressClaim. It is
	// the name that the contract proposes.
	FinalizerAddress = "ipam.cluster.x-k8s.io/protect-address"
)

// Reconciler gives an IPAddressClaim its IPAddress. It is safe for concurrent use.
type Reconciler struct {
	// Server is that of the management cluster, with IPAddressClaims, IPAddresses and Clusters.
	// Required.
	Server
	// Claims is that of IPClaims, IPPools and IPClasses: of the management cluster, or of a
	// workspace. Required.
	Claims Server
	// Names say which IPClaim is that of an IPAddressClaim.
	Names Names
	// Scope says which IPAddressClaims are served. Default: all.
	Scope Scope

	memory  memory
	gaveWay sync.Map // keys of the IPAddressClaims whose IPClaims gave way to a stray, and its key
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if !r.Scope.reaches(req.Namespace) {
		return reconcile.Result{}, nil // the cache may lack its namespace
	}
	r.memory.begin(time.Now())
	claim := &capiv1.IPAddressClaim{}
	err := r.Get(ctx, req.NamespacedName, claim)
	if apierrors.IsNotFound(err) {
		return patch.Requeue(r.abandoned(ctx, req.NamespacedName))
	}
	if err != nil || !ours(claim) {
		return reconcile.Result{}, err
	}
	if !r.Scope.has(claim) {
		return reconcile.Result{}, nil
	}
	why, err := r.paused(ctx, claim)
	if err != nil {
		return reconcile.Result{}, err
	}
	if why != "" {
		log.FromContext(ctx).V(1).Info("left alone", "reason", why)
		return patch.Requeue(r.pin(ctx, claim))
	}
	if claim.DeletionTimestamp != nil {
		return patch.Requeue(r.release(ctx, claim))
	}
	if !managed(claim.Spec.PoolRef) {
		return reconcile.Result{}, nil // it keeps its address until it is deleted
	}
	var after time.Duration
	result, err := patch.Requeue(patch.Reconcile(ctx, r.Client, claim, func(ctx context.Context) (err error) {
		after, err = r.serve(ctx, claim)
		return err
	}))
	if err == nil && result.IsZero() {
		result.RequeueAfter = after
	}
	return result, err
}

// serve gives a claim its address, or says in its status why it has none. It returns when to try
// again, 0 for when something changes.
func (r *Reconciler) serve(ctx context.Context, claim *capiv1.IPAddressClaim) (after time.Duration, err error) {
	if controllerutil.AddFinalizer(claim, Finalizer) {
		return 0, nil // it is stored before anything is taken, and its event comes
	}
	err = r.provide(ctx, claim)
	if refused := (*refusal)(nil); errors.As(err, &refused) {
		refuse(claim, refused)
		return refused.after, nil
	}
	return 0, err
}

// provide makes the IPClaim of a claim, and then its IPAddress. The error is a refusal if there is
// no address for it. A claim that has one does not lose it with its class.
func (r *Reconciler) provide(ctx context.Context, claim *capiv1.IPAddressClaim) error {
	held, err := r.held(ctx, client.ObjectKeyFromObject(claim))
	if err != nil {
		return err
	}
	pool, err := r.source(ctx, claim.Spec.PoolRef)
	if _, refused := errors.AsType[*refusal](err); err != nil && (!refused || held == nil || held.Status.Address == "") {
		return err
	}
	found, err := r.address(ctx, client.ObjectKeyFromObject(claim))
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
	from, err := r.origin(ctx, bound)
	if err != nil {
		return err
	}
	if found == nil {
		if err := r.yield(ctx, client.ObjectKeyFromObject(claim), bound, from); err != nil {
			return err
		}
	}
	wanted, err := newAddress(claim, bound, from)
	if err != nil {
		return err
	}
	if err := r.ensureAddress(ctx, claim, pool, wanted, found); err != nil {
		return err
	}
	succeed(claim)
	return nil
}
