package capi

import (
	"context"
	"fmt"
	"net/netip"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// adopt makes the IPClaim of an IPAddress that has none, whether its IPAddressClaim is there or
// not. Else one IPAddress that nobody reconciles, such as one made by hand, would keep all
// IPAddressClaims of the cluster waiting. It reports false for an IPAddress that no pool can hold,
// which keeps nobody waiting.
func (r *Reconciler) adopt(ctx context.Context, address *capiv1.IPAddress) (bool, error) {
	if _, err := netip.ParseAddr(address.Spec.Address); err != nil {
		return false, nil //nolint:nilerr // It is no address.
	}
	claim := &capiv1.IPAddressClaim{Spec: capiv1.IPAddressClaimSpec{PoolRef: address.Spec.PoolRef}}
	claim.Namespace, claim.Name, claim.Labels = address.Namespace, address.Name, address.Labels
	made := r.Names.newClaim(claim)
	made.Spec.Address = textOf(address)
	err := r.Claims.Create(ctx, made)
	switch {
	case err == nil:
		log.FromContext(ctx).Info("address claimed for an IPAddress without IPClaim", "claim", made.Namespace+"/"+made.Name, "prefix", made.Spec.Address)
		return true, nil
	case apierrors.IsInvalid(err):
		return false, nil
	case apierrors.IsAlreadyExists(err):
		return r.regain(ctx, client.ObjectKeyFromObject(address))
	}
	return false, fmt.Errorf("create IPClaim %s: %w", made.Name, err)
}

// regain puts the IPClaim of an IPAddress right that the cache does not show, as its label was taken off, or
// that [ended]: another one follows. It reports false for one that is not of this IPAddress.
func (r *Reconciler) regain(ctx context.Context, key client.ObjectKey) (bool, error) {
	found := &ipamv1alpha1.IPClaim{}
	err := r.Claims.Live.Get(ctx, r.Names.claim(key), found)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil // it went meanwhile
	case err != nil:
		return false, fmt.Errorf("read the IPClaim of IPAddress %s: %w", key, err)
	case !r.Names.owns(key, found):
		return false, nil
	case ended(found):
		return true, r.letGo(ctx, found)
	}
	return true, r.hold(ctx, found)
}
