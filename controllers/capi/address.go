package capi

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
)

// address reads the IPAddress of an IPAddressClaim from the cache; nil if it is not there.
func (m Management) address(ctx context.Context, key client.ObjectKey) (*capiv1.IPAddress, error) {
	return shown(ctx, m, key, &capiv1.IPAddress{})
}

// belongs reports whether an IPAddress is that of the IPAddressClaim with this key, and of a pool of ours.
func belongs(address *capiv1.IPAddress, key client.ObjectKey) bool {
	return address.Namespace == key.Namespace && address.Name == key.Name &&
		address.Spec.ClaimRef.Name == key.Name && managed(address.Spec.PoolRef)
}

// textOf returns the address of an IPAddress in the form that IPClaims use.
func textOf(address *capiv1.IPAddress) string {
	parsed, err := netip.ParseAddr(address.Spec.Address)
	if err != nil {
		return address.Spec.Address // the API refuses it
	}
	return parsed.Unmap().String()
}

// newAddress returns the IPAddress of an IPAddressClaim. The address is that of the IPClaim; prefix and gateway are
// those of the network of the pool that the address is from.
func newAddress(
	claim *capiv1.IPAddressClaim, bound *ipamv1alpha1.IPClaim, from *ipamv1alpha1.IPPool,
) (*capiv1.IPAddress, error) {
	block, err := netip.ParsePrefix(from.Status.AllocatedCIDR)
	if err != nil {
		return nil, fmt.Errorf("IPPool %s: %w", from.Name, err)
	}
	router, err := from.Spec.Router(block)
	if err != nil {
		return nil, notReady("IPPool %s: %v", from.Name, err)
	}
	var gateway string
	if router.IsValid() {
		gateway = router.String()
	}
	return &capiv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name},
		Spec: capiv1.IPAddressSpec{
			ClaimRef: capiv1.IPAddressClaimReference{Name: claim.Name},
			PoolRef:  claim.Spec.PoolRef,
			Address:  bound.Status.Address,
			Prefix:   new(int32(from.Spec.Network(block).Bits())), //nolint:gosec // At most 128.
			Gateway:  gateway,
		},
	}, nil
}

// complete adds what the contract asks of every IPAddress: owners, the name of the cluster, and a finalizer that
// protects the IPAddress. Additions of others stay.
func (r *Reconciler) complete(address *capiv1.IPAddress, claim *capiv1.IPAddressClaim, pool *source) error {
	if err := controllerutil.SetControllerReference(claim, address, r.Management.Scheme()); err != nil {
		return failed("IPAddress %s has another controller: %v", address.Name, err)
	}
	if err := r.ownByPool(address, pool); err != nil {
		return err
	}
	if name := clusterName(claim); name != "" {
		metav1.SetMetaDataLabel(&address.ObjectMeta, clusterv1.ClusterNameLabel, name)
	}
	controllerutil.AddFinalizer(address, FinalizerAddress)
	return nil
}

// ownByPool makes the pool an owner of an IPAddress, unless the pool is gone. A pool in a workspace cannot be an owner,
// because owners are in the same cluster.
func (r *Reconciler) ownByPool(address *capiv1.IPAddress, pool *source) error {
	if r.Claims.Names.beside() || pool == nil {
		return nil
	}
	err := controllerutil.SetOwnerReference(pool.object, address, r.Management.Scheme(),
		controllerutil.WithBlockOwnerDeletion(true))
	if err != nil {
		return err
	}
	own := slices.IndexFunc(address.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.UID == pool.object.GetUID()
	})
	address.OwnerReferences[own].Controller = new(false)
	return nil
}

// publish makes the IPAddress of a bound IPAddressClaim, or completes the IPAddress found. A nil pool is gone.
func (r *Reconciler) publish(
	ctx context.Context, claim *capiv1.IPAddressClaim, bound *ipamv1alpha1.IPClaim, pool *source, found *capiv1.IPAddress,
) error {
	from, err := r.Claims.origin(ctx, bound)
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

// ensureAddress makes the wanted IPAddress, or completes the IPAddress found.
func (r *Reconciler) ensureAddress(
	ctx context.Context, claim *capiv1.IPAddressClaim, pool *source, wanted, found *capiv1.IPAddress,
) error {
	if found == nil {
		made, err := r.createAddress(ctx, claim, pool, wanted)
		if err != nil {
			return err
		}
		found = made
	}
	if err := r.Claims.Names.compareAddress(found, wanted); err != nil {
		return err
	}
	if found.DeletionTimestamp != nil {
		return nil // the finalizer holds it, and none can be added now
	}
	before := patch.Snapshot(found)
	if err := r.complete(found, claim, pool); err != nil {
		return err
	}
	return before.Patch(ctx, r.Management.Client, found)
}

// createAddress makes an IPAddress. If the server has one already, which the cache did not show, it returns that.
func (r *Reconciler) createAddress(
	ctx context.Context, claim *capiv1.IPAddressClaim, pool *source, wanted *capiv1.IPAddress,
) (*capiv1.IPAddress, error) {
	made := wanted.DeepCopy()
	if err := r.complete(made, claim, pool); err != nil {
		return nil, err
	}
	err := r.Management.Create(ctx, made)
	switch {
	case err == nil:
		log.FromContext(ctx).Info("address published", "pool", claim.Spec.PoolRef.Name, "prefix", made.Spec.Address)
		return made, nil
	case !apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("create IPAddress %s: %w", made.Name, err)
	}
	found := &capiv1.IPAddress{}
	if err := r.Management.Live.Get(ctx, client.ObjectKeyFromObject(claim), found); err != nil {
		return nil, fmt.Errorf("read IPAddress %s: %w", made.Name, err)
	}
	return found, nil
}

// compareAddress refuses an IPAddress of another claim, pool or address. It does not compare prefix and gateway: an
// IPAddress never changes, while its pool may.
func (n Names) compareAddress(found, wanted *capiv1.IPAddress) error {
	switch {
	case found.Spec.ClaimRef != wanted.Spec.ClaimRef:
		return inTheWay("IPAddress %s is of IPAddressClaim %s; delete that IPAddress", found.Name, found.Spec.ClaimRef.Name)
	case found.Spec.PoolRef != wanted.Spec.PoolRef:
		return failed("IPAddress %s is of another pool than spec.poolRef; delete this IPAddressClaim, and create it again",
			found.Name)
	case textOf(found) != wanted.Spec.Address:
		return failed(
			"IPAddress %s has the address %s, but IPClaim %s holds %s; delete this IPAddressClaim, and create it again",
			found.Name, found.Spec.Address, n.claim(client.ObjectKeyFromObject(found)).Name, wanted.Spec.Address)
	}
	return nil
}
