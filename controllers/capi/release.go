package capi

import (
	"context"
	"fmt"

	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
)

// release gives back what an IPAddressClaim has that is being deleted, and then lets it go.
func (r *Reconciler) release(ctx context.Context, claim *capiv1.IPAddressClaim) error {
	if !controllerutil.ContainsFinalizer(claim, Finalizer) {
		return nil
	}
	key := client.ObjectKeyFromObject(claim)
	if gone, err := r.deleteAddress(ctx, key); err != nil || !gone {
		return err
	}
	if gone, err := r.deleteClaim(ctx, key); err != nil || !gone {
		return err
	}
	before := patch.Snapshot(claim)
	controllerutil.RemoveFinalizer(claim, Finalizer)
	return before.Patch(ctx, r.Client, claim)
}

// abandoned gives back what an IPAddressClaim has left that went without us: its finalizer was
// taken off, as clusterctl move does on the side that it moves from. An IPAddress that is
// not being deleted is kept, with its address: the garbage collector deletes it, and until then it may
// belong to a claim that is being restored.
func (r *Reconciler) abandoned(ctx context.Context, key client.ObjectKey) error {
	if left, err := r.left(ctx, key); err != nil || !left {
		if err == nil {
			r.memory.forget(key)
			r.gaveWay.Delete(key)
		}
		return err
	}
	if gone, err := r.gone(ctx, key, &capiv1.IPAddressClaim{}); err != nil || !gone {
		return err
	}
	if err := r.confirm(ctx); err != nil {
		return err
	}
	address := &capiv1.IPAddress{}
	gone, err := r.gone(ctx, key, address)
	if err != nil {
		return err
	}
	if !gone && belongs(address, key) && address.DeletionTimestamp == nil {
		_, err = r.adopt(ctx, address)
		return err
	}
	if !gone {
		gone, err = r.dropAddress(ctx, address)
	}
	if err != nil || !gone {
		return err
	}
	if kept, err := r.keeps(ctx, key); err != nil || kept {
		return err
	}
	_, err = r.deleteClaim(ctx, key)
	return err
}

// confirm returns an error if the API server is not that of the management cluster any more, whose
// IPAddressClaims it then lacks. A kubeconfig may have been replaced, or an address be another's.
func (r *Reconciler) confirm(ctx context.Context) error {
	if !r.Names.beside() {
		return nil
	}
	found, err := Identify(ctx, r.Live)
	if err != nil || found == r.Names.Origin {
		return err
	}
	return fmt.Errorf("the management cluster was %s, and its server answers for %s now; start the controller again if that is meant to be", r.Names.Origin, found)
}

// left reports whether the cache shows anything of an IPAddressClaim that it does not show itself.
func (r *Reconciler) left(ctx context.Context, key client.ObjectKey) (bool, error) {
	address, err := r.address(ctx, key)
	if err != nil || address != nil && belongs(address, key) {
		return address != nil, err
	}
	held, err := r.held(ctx, key)
	return held != nil, err
}

// deleteAddress deletes the IPAddress of an IPAddressClaim, and reports whether it is gone. A
// finalizer of others may hold it: its end is watched.
func (r *Reconciler) deleteAddress(ctx context.Context, key client.ObjectKey) (gone bool, err error) {
	address := &capiv1.IPAddress{}
	if gone, err = r.gone(ctx, key, address); err != nil || gone {
		return gone, err
	}
	return r.dropAddress(ctx, address)
}

// dropAddress deletes an IPAddress as it was read, unless it is another's, and reports whether it is gone.
func (r *Reconciler) dropAddress(ctx context.Context, address *capiv1.IPAddress) (gone bool, err error) {
	if !belongs(address, client.ObjectKeyFromObject(address)) {
		return true, nil
	}
	before := patch.Snapshot(address)
	controllerutil.RemoveFinalizer(address, FinalizerAddress)
	if err := client.IgnoreNotFound(before.Patch(ctx, r.Client, address)); err != nil {
		return false, fmt.Errorf("let IPAddress %s go: %w", address.Name, err)
	}
	return r.remove(ctx, address)
}

// deleteClaim deletes the IPClaim of an IPAddressClaim, and reports whether it is gone.
func (r *Reconciler) deleteClaim(ctx context.Context, key client.ObjectKey) (gone bool, err error) {
	claim := &ipamv1alpha1.IPClaim{}
	if gone, err = r.Claims.gone(ctx, r.Names.claim(key), claim); err != nil || gone {
		return gone, err
	}
	if !r.Names.owns(key, claim) {
		return true, nil
	}
	if err := r.letGo(ctx, claim); err != nil {
		return false, fmt.Errorf("let IPClaim %s go: %w", claim.Name, err)
	}
	gone, err = r.Claims.remove(ctx, claim)
	if gone {
		log.FromContext(ctx).Info("address given back", "prefix", claim.Status.AllocatedCIDR)
	}
	return gone, err
}
