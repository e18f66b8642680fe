package capi

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
)

// release gives back the address of an IPAddressClaim that is being deleted, and then removes the finalizer.
func (r *Reconciler) release(ctx context.Context, claim *capiv1.IPAddressClaim) error {
	if !controllerutil.ContainsFinalizer(claim, Finalizer) {
		return nil
	}
	key := client.ObjectKeyFromObject(claim)
	if gone, err := r.Management.deleteAddress(ctx, key); err != nil || !gone {
		return err
	}
	if gone, err := r.Claims.giveBack(ctx, key); err != nil || !gone {
		return err
	}
	before := patch.Snapshot(claim)
	controllerutil.RemoveFinalizer(claim, Finalizer)
	return before.Patch(ctx, r.Management.Client, claim)
}

// abandoned gives back the address of an IPAddressClaim that is gone, although this controller did not let it go: its
// finalizer was removed, as by clusterctl move in the cluster that it moves from.
func (r *Reconciler) abandoned(ctx context.Context, key client.ObjectKey) error {
	left, err := r.left(ctx, key)
	if err == nil && !left {
		r.memory.forget(key)
		r.gaveWay.Delete(key)
	}
	if err != nil || !left {
		return err
	}
	if gone, err := r.Management.gone(ctx, key, &capiv1.IPAddressClaim{}); err != nil || !gone {
		return err
	}
	if err := r.Management.confirm(ctx, r.Claims.Names.Origin); err != nil {
		return err
	}
	if gone, err := r.abandonAddress(ctx, key); err != nil || !gone {
		return err
	}
	if kept, err := r.keeps(ctx, key); err != nil || kept {
		return err
	}
	_, err = r.Claims.giveBack(ctx, key)
	return err
}

// abandonAddress goes on with the deletion of an IPAddress whose IPAddressClaim is gone, and reports whether the
// IPAddress is gone. If nobody has begun to delete the IPAddress, it stays, with its address: the garbage collector
// will delete it, and until then a claim that is being restored may need it.
func (r *Reconciler) abandonAddress(ctx context.Context, key client.ObjectKey) (gone bool, err error) {
	address := &capiv1.IPAddress{}
	if gone, err = r.Management.gone(ctx, key, address); err != nil || gone {
		return gone, err
	}
	if belongs(address, key) && address.DeletionTimestamp == nil {
		_, err = r.Claims.adopt(ctx, address)
		return false, err
	}
	return r.Management.dropAddress(ctx, address)
}

// confirm returns an error if the API server no longer serves the management cluster of this origin: another server
// lacks its IPAddressClaims. The kubeconfig may have been replaced, or the address of the server may belong to another
// one now.
func (m Management) confirm(ctx context.Context, origin types.UID) error {
	if origin == "" {
		return nil // IPClaims are in the same cluster
	}
	found, err := Identify(ctx, m.Live)
	if err != nil || found == origin {
		return err
	}
	return fmt.Errorf("the management cluster was %s, and its server answers for %s now; "+
		"start the controller again if that is meant to be", origin, found)
}

// left reports whether the cache shows an IPAddress or an IPClaim of an IPAddressClaim that is gone.
func (r *Reconciler) left(ctx context.Context, key client.ObjectKey) (bool, error) {
	address, err := r.Management.address(ctx, key)
	if err != nil || address != nil && belongs(address, key) {
		return address != nil, err
	}
	held, err := r.Claims.held(ctx, key)
	return held != nil, err
}

// deleteAddress deletes the IPAddress of an IPAddressClaim, and reports whether it is gone. If a finalizer of others
// holds it, an event comes when it goes.
func (m Management) deleteAddress(ctx context.Context, key client.ObjectKey) (gone bool, err error) {
	address := &capiv1.IPAddress{}
	if gone, err = m.gone(ctx, key, address); err != nil || gone {
		return gone, err
	}
	return m.dropAddress(ctx, address)
}

// dropAddress deletes an IPAddress in the version that was read, unless it belongs to something else, and reports
// whether it is gone.
func (m Management) dropAddress(ctx context.Context, address *capiv1.IPAddress) (gone bool, err error) {
	if !belongs(address, client.ObjectKeyFromObject(address)) {
		return true, nil
	}
	before := patch.Snapshot(address)
	controllerutil.RemoveFinalizer(address, FinalizerAddress)
	if err := client.IgnoreNotFound(before.Patch(ctx, m.Client, address)); err != nil {
		return false, fmt.Errorf("let IPAddress %s go: %w", address.Name, err)
	}
	return m.remove(ctx, address)
}

// giveBack deletes the IPClaim of an IPAddressClaim, and reports whether it is gone.
func (c Claims) giveBack(ctx context.Context, key client.ObjectKey) (gone bool, err error) {
	claim := &ipamv1alpha1.IPClaim{}
	if gone, err = c.gone(ctx, c.Names.claim(key), claim); err != nil || gone {
		return gone, err
	}
	if !c.Names.owns(key, claim) {
		return true, nil
	}
	if err := c.letGo(ctx, claim); err != nil {
		return false, fmt.Errorf("let IPClaim %s go: %w", claim.Name, err)
	}
	prefix := claim.Status.AllocatedCIDR
	gone, err = c.remove(ctx, claim)
	if gone {
		log.FromContext(ctx).Info("address given back", "prefix", prefix)
	}
	return gone, err
}
