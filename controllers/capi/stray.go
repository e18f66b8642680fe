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

// An IPAddress without its IPClaim is a stray: it was restored, moved here by clusterctl, or made by hand, and the
// ledger does not know its address. Each stray is reconciled by itself, and gets an IPClaim for exactly its address,
// even while its Cluster is paused. Before that IPClaim has the address, the IPClaim of another IPAddressClaim may be
// given it. The latter then keeps the address, publishes nothing, and gives way once the IPClaim of the stray waits for
// the address. So a stray delays at most one IPAddressClaim. If the stray is forbidden to have an IPClaim, and no
// IPAddressClaim asks for it, the delay is at most an hour.

const (
	// yieldDelay is when to try an IPAddressClaim again whose IPClaim has just given way to a stray.
	yieldDelay = time.Second
	// strayDelay is when to try an IPAddressClaim again that waits for a stray.
	strayDelay = 10 * time.Second
	// strayPatience is how long an IPClaim keeps its address for a stray that is forbidden to have an IPClaim, and that no
	// IPAddressClaim asks for.
	strayPatience = time.Hour
)

// pin claims the address of an IPAddressClaim that is left alone, if the IPAddressClaim has an IPAddress whose address
// the ledger does not know. It writes no objects of Cluster API.
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

// adopt returns the IPClaim of an IPAddress, and makes it if there is none. It returns nil if the IPAddress can have
// none now. If the IPClaim has [ended], adopt lets it go, so that another one can follow.
func (c Claims) adopt(ctx context.Context, address *capiv1.IPAddress) (*ipamv1alpha1.IPClaim, error) {
	key := client.ObjectKeyFromObject(address)
	_, err := netip.ParseAddr(address.Spec.Address)
	if err != nil || !belongs(address, key) || address.DeletionTimestamp != nil {
		return nil, nil //nolint:nilerr,nilnil // No pool has its address, or the IPAddress is about to go.
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

// regain returns the IPClaim of an IPAddress whose label was removed, so that the cache does not show it, and labels it
// again. It returns nil if the IPClaim has [ended], or is not of this IPAddress.
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

// yield refuses to publish the address of an IPClaim if a stray shows the same address. Once the IPClaim of the stray
// waits for the address, the other IPClaim gives way: it is deleted, and made again later.
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
	case err != nil: // the cause lies with the stray, not with this IPAddressClaim
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

// forbidden refuses to publish the address of an IPClaim because of a stray that is forbidden to have an IPClaim. If no
// IPAddressClaim asks for the stray, the refusal lasts for strayPatience only: otherwise users could take addresses out
// of a pool by writing IPAddresses.
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

// behind returns the refusal of an IPAddressClaim that has to wait until a stray has its address.
func behind(address string) *refusal {
	return &refusal{
		reason: clusterv1.NotReadyReason,
		message: fmt.Sprintf("%s is the address of an IPAddress that was restored, moved or made by hand, "+
			"and has to get its IPClaim first", address),
		after: strayDelay,
	}
}

// yielded refuses to make an IPClaim again that gave way to a stray, until the stray has its address. Otherwise, in a
// pool with a cooldown, the ledger would give the address back to the same name at once, and so on without end.
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

// stray returns another IPAddress that shows this address of a pool, and whose IPClaim does not have another address;
// nil: there is none. It finds the IPAddress in the cache, and reads it from the API server.
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
			return stray, err // if it is gone, the cache lagged
		}
	}
	return nil, nil //nolint:nilnil // Nil says that there is none.
}

// offers reports whether an IPAddress names this IPPool, or a class that the IPPool backs, as its pool.
func offers(pool *ipamv1alpha1.IPPool, ref capiv1.IPPoolReference) bool {
	return managed(ref) &&
		(ref.Kind == kindPool && ref.Name == pool.Name ||
			ref.Kind == kindClass && slices.Contains(pool.Spec.ClassNames, ref.Name))
}

// awaits reports whether an IPClaim waits for the holder of this address to give it back.
func awaits(claim *ipamv1alpha1.IPClaim, address string) bool {
	if claim == nil || claim.DeletionTimestamp != nil || claim.Spec.Address != address ||
		!controllerutil.ContainsFinalizer(claim, Finalizer) {
		return false
	}
	allocated := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionAllocated)
	return allocated != nil && allocated.Reason == string(ipamv1alpha1.ReasonAddressInUse)
}
