package capi

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// An IPAddress without its IPClaim is a stray: it was restored, moved here by clusterctl, or made by hand, and
// the ledger does not know its address. Each is reconciled by itself, and gets an IPClaim of exactly its
// address, also while its Cluster is paused. Until that has the address, an IPClaim of another IPAddressClaim may be
// answered with it. That one keeps the address to itself, publishes nothing, and gives way when
// the IPClaim of the stray waits for it. So a stray delays at most one IPAddressClaim, and for an hour at most if it is
// forbidden to have an IPClaim and nobody asks for one.

const (
	// yieldDelay is when an IPAddressClaim that gave way to a stray, or waits to do so, is tried again.
	yieldDelay = time.Second
	// strayDelay is when one is tried again beside a stray that cannot be claimed now.
	strayDelay = 10 * time.Second
	// strayPatience is how long an IPClaim keeps its address for a stray that may have none and that no IPAddressClaim
	// asks for.
	strayPatience = time.Hour
)

// pin claims the address of an IPAddressClaim that is left alone, if it has one that the ledger
// does not know. Objects of Cluster API are not written.
func (r *Reconciler) pin(ctx context.Context, claim *capiv1.IPAddressClaim) error {
	if claim.DeletionTimestamp != nil {
		return nil
	}
	address, err := r.Management.address(ctx, client.ObjectKeyFromObject(claim))
	if err != nil || address == nil {
		return err
	}
	_, err = r.Claims.adopt(ctx, address)
	return err
}

// adopt returns the IPClaim of an IPAddress, made if there is none; nil if it can have none now. One that [ended]
// is let go: another one follows.
func (c Claims) adopt(ctx context.Context, address *capiv1.IPAddress) (*ipamv1alpha1.IPClaim, error) {
	key := client.ObjectKeyFromObject(address)
	_, err := netip.ParseAddr(address.Spec.Address)
	if err != nil || !belongs(address, key) || address.DeletionTimestamp != nil {
		return nil, nil //nolint:nilerr,nilnil // No pool has its address, or it is about to go.
	}
	held, err := c.held(ctx, key)
	if err != nil || held != nil && !ended(held) {
		return held, err
	}
	claim := &capiv1.IPAddressClaim{Spec: capiv1.IPAddressClaimSpec{PoolRef: address.Spec.PoolRef}}
	claim.Namespace, claim.Name = address.Namespace, address.Name
	claim.Labels, claim.ResourceVersion = address.Labels, address.ResourceVersion
	made := c.Names.newClaim(claim)
	made.Spec.Address = textOf(address)
	err = c.Create(ctx, made)
	switch {
	case err == nil:
		log.FromContext(ctx).Info("address claimed for an IPAddress without IPClaim", "claim", made.Namespace+"/"+made.Name,
			"prefix", made.Spec.Address)
		return made, nil
	case apierrors.IsInvalid(err):
		return nil, nil //nolint:nilnil // No pool has such an address.
	case apierrors.IsAlreadyExists(err):
		return c.regain(ctx, key)
	}
	return nil, fmt.Errorf("create IPClaim %s: %w", made.Name, err)
}

// regain returns the IPClaim of an IPAddress that the cache does not show, as its label was taken off, and puts
// it right. It returns nil for one that [ended], and for one that is not of this IPAddress.
func (c Claims) regain(ctx context.Context, key client.ObjectKey) (*ipamv1alpha1.IPClaim, error) {
	found := &ipamv1alpha1.IPClaim{}
	gone, err := c.gone(ctx, c.Names.claim(key), found)
	switch {
	case err != nil || gone || !c.Names.owns(key, found):
		return nil, err
	case ended(found):
		return nil, c.letGo(ctx, found)
	}
	return found, c.hold(ctx, found)
}

// yield refuses to publish the address of an IPClaim that a stray shows. The IPClaim gives way when that of the stray
// waits for the address, and is made again.
func (r *Reconciler) yield(
	ctx context.Context, key client.ObjectKey, bound *ipamv1alpha1.IPClaim, from *ipamv1alpha1.IPPool,
) error {
	stray, err := r.stray(ctx, key, bound.Status.Address, from)
	if err != nil || stray == nil {
		return err
	}
	wait := behind(bound.Status.Address)
	held, err := r.Claims.adopt(ctx, stray)
	switch {
	case apierrors.IsForbidden(err):
		return r.forbidden(ctx, client.ObjectKeyFromObject(stray), bound)
	case err != nil: // it has nothing to do with this IPAddressClaim
		log.FromContext(ctx).Error(err, "an IPAddress has no IPClaim, and keeps its address from others; "+
			"delete it, or let its IPClaim be made",
			"address", client.ObjectKeyFromObject(stray), "prefix", bound.Status.AllocatedCIDR)
		return wait
	case !awaits(held, bound.Status.Address):
		return wait
	}
	if _, err := r.Claims.giveBack(ctx, key); err != nil {
		return err
	}
	r.gaveWay.Store(key, client.ObjectKeyFromObject(stray))
	wait.after = yieldDelay
	return wait
}

// forbidden refuses to publish the address of an IPClaim, which a stray shows whose own IPClaim is forbidden. If no
// IPAddressClaim waits for the stray, it keeps the address for a time only: otherwise users could take addresses out of
// a pool by writing IPAddresses.
func (r *Reconciler) forbidden(ctx context.Context, stray client.ObjectKey, bound *ipamv1alpha1.IPClaim) error {
	wait := behind(bound.Status.Address)
	wait.message += ", which is forbidden, as by a ResourceQuota of its namespace: " +
		"allow it there, or delete that IPAddress"
	unclaimed, err := r.Management.gone(ctx, stray, &capiv1.IPAddressClaim{})
	if err != nil || !unclaimed {
		return cmp.Or(err, error(wait))
	}
	until := bound.CreationTimestamp.Add(strayPatience)
	if time.Now().Before(until) {
		wait.message += fmt.Sprintf("; no IPAddressClaim asks for it, so it has the address until %s",
			until.UTC().Format(time.RFC3339))
		return wait
	}
	log.FromContext(ctx).Info("an IPAddress without IPClaim and IPAddressClaim shows an address "+
		"that another one gets; delete it",
		"address", stray, "prefix", bound.Status.AllocatedCIDR, "claim", bound.Name)
	return nil
}

// behind is the refusal of an IPAddressClaim that has to wait until a stray has its address.
func behind(address string) *refusal {
	return &refusal{
		reason: clusterv1.NotReadyReason,
		message: fmt.Sprintf("%s is the address of an IPAddress that was restored, moved or made by hand, "+
			"and has to get its IPClaim first", address),
		after: strayDelay,
	}
}

// yielded refuses to make the IPClaim of an IPAddressClaim again that gave way to a stray, until that has its address.
// In a pool with a cooldown, the ledger would give the address back to the name at once, and so without end.
func (r *Reconciler) yielded(ctx context.Context, key client.ObjectKey) error {
	stray, ok := r.gaveWay.Load(key)
	if !ok {
		return nil
	}
	held, err := r.Claims.held(ctx, stray.(client.ObjectKey))
	if err != nil {
		return err
	}
	if held != nil && awaits(held, held.Spec.Address) {
		return behind(held.Spec.Address)
	}
	r.gaveWay.Delete(key)
	return nil
}

// stray finds another IPAddress that shows an address of a pool, and whose IPClaim does not have another one. The cache
// names it, and the API server has it.
func (r *Reconciler) stray(
	ctx context.Context, key client.ObjectKey, address string, from *ipamv1alpha1.IPPool,
) (*capiv1.IPAddress, error) {
	addresses := &capiv1.IPAddressList{}
	if err := r.Management.List(ctx, addresses, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list IPAddresses: %w", err)
	}
	for i := range addresses.Items {
		found := &addresses.Items[i]
		other := client.ObjectKeyFromObject(found)
		if other == key || !offers(from, found.Spec.PoolRef) || textOf(found) != address || !belongs(found, other) {
			continue
		}
		held, err := r.Claims.held(ctx, other)
		if err != nil {
			return nil, err
		}
		if held != nil && held.Status.Address != "" {
			continue
		}
		stray := &capiv1.IPAddress{}
		gone, err := r.Management.gone(ctx, other, stray)
		if err != nil || !gone {
			return stray, err // else the cache lagged
		}
	}
	return nil, nil //nolint:nilnil // Nil is that there is none.
}

// offers reports whether what an IPAddress names as its pool is an IPPool, or a class that it backs.
func offers(pool *ipamv1alpha1.IPPool, ref capiv1.IPPoolReference) bool {
	return managed(ref) &&
		(ref.Kind == kindPool && ref.Name == pool.Name ||
			ref.Kind == kindClass && slices.Contains(pool.Spec.ClassNames, ref.Name))
}

// awaits reports whether an IPClaim gets an address when its holder gives it back.
func awaits(claim *ipamv1alpha1.IPClaim, address string) bool {
	if claim == nil || claim.DeletionTimestamp != nil || claim.Spec.Address != address ||
		!controllerutil.ContainsFinalizer(claim, Finalizer) {
		return false
	}
	allocated := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionAllocated)
	return allocated != nil && allocated.Reason == string(ipamv1alpha1.ReasonAddressInUse)
}
