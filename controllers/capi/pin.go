package capi

import (
	"cmp"
	"context"
	"fmt"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// pinDelay is when a claim is tried again that waits for others to be pinned.
const pinDelay = time.Second

// An IPAddress without its IPClaim was restored, or moved here by clusterctl: the ledger does not
// know its address yet, and would allocate it once more. So it is claimed at once, also while
// its Cluster is paused, and no other address is claimed before.

// pin claims the address of an IPAddressClaim that is left alone, if it has one that the ledger
// does not know. Objects of Cluster API are not written.
func (r *Reconciler) pin(ctx context.Context, claim *capiv1.IPAddressClaim) error {
	key := client.ObjectKeyFromObject(claim)
	address, err := r.address(ctx, key)
	if err != nil || address == nil || !belongs(address, key) || claim.DeletionTimestamp != nil {
		return err
	}
	held, err := r.held(ctx, key)
	if err != nil || held != nil && !ended(held) {
		return err
	}
	_, err = r.adopt(ctx, address)
	return err
}

// pinned refuses while the cache shows an IPAddress without its IPClaim, and makes that one.
func (r *Reconciler) pinned(ctx context.Context) error {
	claims, known := &ipamv1alpha1.IPClaimList{}, map[client.ObjectKey]bool{}
	if err := r.Claims.List(ctx, claims); err != nil { // of packed objects only copies are whole
		return fmt.Errorf("list IPClaims: %w", err)
	}
	for i := range claims.Items {
		known[client.ObjectKeyFromObject(&claims.Items[i])] = !ended(&claims.Items[i])
	}
	addresses := &capiv1.IPAddressList{}
	if err := r.List(ctx, addresses, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list IPAddresses: %w", err)
	}
	var first client.ObjectKey
	for i := range addresses.Items {
		address := &addresses.Items[i]
		key := client.ObjectKeyFromObject(address)
		if !belongs(address, key) || address.DeletionTimestamp != nil || known[r.Names.claim(key)] {
			continue
		}
		others, err := r.others(ctx, key)
		if err != nil {
			return err
		}
		if others {
			continue
		}
		adopted, err := r.adopt(ctx, address)
		if err != nil {
			return err
		}
		if adopted {
			first = cmp.Or(first, key)
		}
	}
	if first == (client.ObjectKey{}) {
		return nil
	}
	message := fmt.Sprintf("IPAddress %s, which was restored or moved, has to get its IPClaim first", first)
	return &refusal{reason: clusterv1.NotReadyReason, message: message, after: pinDelay}
}
