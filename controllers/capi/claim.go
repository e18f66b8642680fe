package capi

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
)

// kindClaim is the kind of the consumer of our IPClaims.
const kindClaim = "IPAddressClaim"

// newClaim returns the IPClaim of an IPAddressClaim, without address and length. Its ownerRef has no UID: an
// IPAddressClaim that is made again under its name, as by a restore, is for the same machine.
func (n Names) newClaim(claim *capiv1.IPAddressClaim) *ipamv1alpha1.IPClaim {
	key := n.claim(client.ObjectKeyFromObject(claim))
	made := &ipamv1alpha1.IPClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Finalizers: []string{Finalizer}},
		Spec: ipamv1alpha1.IPClaimSpec{
			// The class may refuse claims that cannot be met now, but machines wait.
			UnmetPolicy: ipamv1alpha1.UnmetWait,
			OwnerRef: &ipamv1alpha1.OwnerRef{
				APIGroup: capiv1.GroupVersion.Group, Kind: kindClaim, Namespace: claim.Namespace, Name: claim.Name,
			},
		},
	}
	made.Spec.ClassName, made.Spec.PoolRef = request(claim.Spec.PoolRef)
	if name := clusterName(claim); name != "" {
		metav1.SetMetaDataLabel(&made.ObjectMeta, clusterv1.ClusterNameLabel, name)
	}
	n.mark(made)
	if n.beside() {
		metav1.SetMetaDataAnnotation(&made.ObjectMeta, AnnotationRevision, claim.ResourceVersion)
	}
	return made
}

// request returns the class or the pool that an IPClaim names for the poolRef of an IPAddressClaim.
func request(ref capiv1.IPPoolReference) (class string, pool *ipamv1alpha1.PoolRef) {
	if ref.Kind == kindClass {
		return ref.Name, nil
	}
	return "", &ipamv1alpha1.PoolRef{Name: ref.Name}
}

// ensureClaim returns the IPClaim of an IPAddressClaim: the one found in the cache, or else a new one. The error is a
// refusal if another IPClaim is in the way.
func (r *Reconciler) ensureClaim(
	ctx context.Context, claim *capiv1.IPAddressClaim, pool *source, found *ipamv1alpha1.IPClaim,
) (*ipamv1alpha1.IPClaim, error) {
	if found == nil {
		if err := r.yielded(ctx, client.ObjectKeyFromObject(claim)); err != nil {
			return nil, err
		}
		made, err := r.createClaim(ctx, claim, pool)
		if err != nil {
			return nil, err
		}
		found = made
	}
	if err := r.Claims.Names.compareClaim(found, claim); err != nil {
		return nil, err
	}
	if !ended(found) {
		return found, r.Claims.hold(ctx, found) // an IPClaim that is being deleted stays held, with its address
	}
	if err := r.Claims.letGo(ctx, found); err != nil {
		return nil, err
	}
	return nil, &refusal{
		reason: clusterv1.NotReadyReason, message: fmt.Sprintf("IPClaim %s was deleted; another one follows", found.Name),
	}
}

// held reads the IPClaim of an IPAddressClaim from the cache; nil if it is not there.
func (c Claims) held(ctx context.Context, key client.ObjectKey) (*ipamv1alpha1.IPClaim, error) {
	return shown(ctx, c, c.Names.claim(key), &ipamv1alpha1.IPClaim{})
}

// createClaim makes the IPClaim of an IPAddressClaim. If the server has the IPAddress already, the IPClaim asks for its
// address. If the server has the IPClaim already, which the cache did not show, createClaim returns that.
func (r *Reconciler) createClaim(
	ctx context.Context, claim *capiv1.IPAddressClaim, pool *source,
) (*ipamv1alpha1.IPClaim, error) {
	key, address, made := client.ObjectKeyFromObject(claim), &capiv1.IPAddress{}, r.Claims.Names.newClaim(claim)
	absent, err := r.Management.gone(ctx, key, address)
	if err != nil {
		return nil, err
	}
	made.Spec.PrefixLength = pool.bits()
	if !absent && belongs(address, key) {
		made.Spec.Address = textOf(address)
	}
	err = r.Claims.Create(ctx, made) // the answer has the address
	// It is forbidden by a quota, or in a namespace that is being deleted. It is invalid if the address is that of an
	// IPAddress that was made by hand.
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return nil, inTheWay("IPClaim %s cannot be made: %v", made.Name, err)
	}
	if !apierrors.IsAlreadyExists(err) {
		return made, err
	}
	found := &ipamv1alpha1.IPClaim{}
	if err := r.Claims.Live.Get(ctx, r.Claims.Names.claim(key), found); err != nil {
		return nil, fmt.Errorf("read IPClaim %s: %w", made.Name, err)
	}
	return found, nil
}

// compareClaim refuses an IPClaim of another IPAddressClaim or pool.
func (n Names) compareClaim(found *ipamv1alpha1.IPClaim, claim *capiv1.IPAddressClaim) error {
	class, pool := request(claim.Spec.PoolRef)
	switch {
	case !n.owns(client.ObjectKeyFromObject(claim), found):
		return inTheWay("IPClaim %s is not of this IPAddressClaim; delete that IPClaim, or use another name", found.Name)
	case found.Spec.ClassName != class, (found.Spec.PoolRef == nil) != (pool == nil),
		pool != nil && found.Spec.PoolRef.Name != pool.Name:
		return failed("IPClaim %s is of another pool than spec.poolRef; delete this IPAddressClaim, and create it again",
			found.Name)
	}
	return nil
}

// ended reports whether an IPClaim was deleted before it had an address. It will never get one.
func ended(claim *ipamv1alpha1.IPClaim) bool {
	return claim.DeletionTimestamp != nil && claim.Status.AllocatedCIDR == ""
}

// hold puts the finalizer and the label on an IPClaim, unless it has them. An IPClaim that is being deleted gets only
// the label.
func (c Claims) hold(ctx context.Context, claim *ipamv1alpha1.IPClaim) error {
	before := patch.Snapshot(claim)
	if claim.DeletionTimestamp == nil {
		controllerutil.AddFinalizer(claim, Finalizer)
	}
	c.Names.mark(claim)
	return before.Patch(ctx, c, claim)
}

// letGo removes the finalizer from an IPClaim.
func (c Claims) letGo(ctx context.Context, claim *ipamv1alpha1.IPClaim) error {
	before := patch.Snapshot(claim)
	controllerutil.RemoveFinalizer(claim, Finalizer)
	return client.IgnoreNotFound(before.Patch(ctx, c, claim))
}
