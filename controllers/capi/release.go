package capi

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/patch"
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
// not being deleted is kept, and its IPClaim with it: the garbage collector deletes it, and
// until then it may belong to a claim that is being restored.
func (r *Reconciler) abandoned(ctx context.Context, key client.ObjectKey) error {
	if left, err := r.left(ctx, key); err != nil || !left {
		return err
	}
	if gone, err := r.gone(ctx, key, &capiv1.IPAddressClaim{}); err != nil || !gone {
		return err
	}
	address := &capiv1.IPAddress{}
	gone, err := r.gone(ctx, key, address)
	if err != nil {
		return err
	}
	if !gone && belongs(address, key) && address.DeletionTimestamp == nil {
		return nil
	}
	if gone, err := r.deleteAddress(ctx, key); err != nil || !gone {
		return err
	}
	_, err = r.deleteClaim(ctx, key)
	return err
}

// left reports whether the cache shows anything of an IPAddressClaim that it does not show itself.
func (r *Reconciler) left(ctx context.Context, key client.ObjectKey) (bool, error) {
	address, err := r.address(ctx, key)
	if address != nil || err != nil {
		return address != nil, err
	}
	err = r.Get(ctx, claimKey(key), &ipamv1alpha1.IPClaim{})
	return err == nil, client.IgnoreNotFound(err)
}

// deleteAddress deletes the IPAddress of an IPAddressClaim, and reports whether it is gone. A
// finalizer of others may hold it: its end is watched.
func (r *Reconciler) deleteAddress(ctx context.Context, key client.ObjectKey) (gone bool, err error) {
	address := &capiv1.IPAddress{}
	if gone, err = r.gone(ctx, key, address); err != nil || gone {
		return gone, err
	}
	if !belongs(address, key) {
		return true, nil
	}
	before := patch.Snapshot(address)
	controllerutil.RemoveFinalizer(address, FinalizerAddress)
	if err := client.IgnoreNotFound(before.Patch(ctx, r.Client, address)); err != nil {
		return false, fmt.Errorf("let IPAddress %s go: %w", key.Name, err)
	}
	return r.remove(ctx, address)
}

// deleteClaim deletes the IPClaim of an IPAddressClaim, and reports whether it is gone.
func (r *Reconciler) deleteClaim(ctx context.Context, key client.ObjectKey) (gone bool, err error) {
	claim := &ipamv1alpha1.IPClaim{}
	if gone, err = r.gone(ctx, claimKey(key), claim); err != nil || gone {
		return gone, err
	}
	if !isFor(claim, key) {
		return true, nil
	}
	if err := r.letGo(ctx, claim); err != nil {
		return false, fmt.Errorf("let IPClaim %s go: %w", claim.Name, err)
	}
	gone, err = r.remove(ctx, claim)
	if gone {
		log.FromContext(ctx).Info("address given back", "prefix", claim.Status.AllocatedCIDR)
	}
	return gone, err
}

// remove deletes an object as it was read, and reports whether it is gone.
func (r *Reconciler) remove(ctx context.Context, object client.Object) (gone bool, err error) {
	uid := object.GetUID()
	err = r.Delete(ctx, object, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("delete %s: %w", object.GetName(), err)
	}
	return r.gone(ctx, client.ObjectKeyFromObject(object), object)
}

// gone asks the API server, which no cache answers for, whether there is no such object. It is
// read if there is.
func (r *Reconciler) gone(ctx context.Context, key client.ObjectKey, object client.Object) (bool, error) {
	err := r.Live.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %T %s: %w", object, key, err)
	}
	return false, nil
}
