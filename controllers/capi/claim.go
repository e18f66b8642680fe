package capi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/patch"
)

// kindClaim is the kind of the consumer of our IPClaims.
const kindClaim = "IPAddressClaim"

// claimName is the name of the IPClaim of an IPAddressClaim, in the same namespace.
func claimName(name string) string {
	const prefix = "capi-"
	if len(prefix)+len(name) <= validation.DNS1123SubdomainMaxLength {
		return prefix + name
	}
	sum := sha256.Sum256([]byte(name))
	return prefix + hex.EncodeToString(sum[:])
}

// claimKey is the key of the IPClaim of an IPAddressClaim.
func claimKey(key client.ObjectKey) client.ObjectKey {
	return client.ObjectKey{Namespace: key.Namespace, Name: claimName(key.Name)}
}

// newClaim is the IPClaim of an IPAddressClaim, without address and length. It names no UID of its
// consumer: an IPAddressClaim that is made again by the same name, as by a restore, has the same
// machine.
func newClaim(claim *capiv1.IPAddressClaim) *ipamv1alpha1.IPClaim {
	made := &ipamv1alpha1.IPClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:  claim.Namespace,
			Name:       claimName(claim.Name),
			Finalizers: []string{Finalizer},
		},
		Spec: ipamv1alpha1.IPClaimSpec{
			// A class may refuse what cannot be met now. Machines wait.
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
	return made
}

// request is how an IPClaim names a pool: as a class, or as a pool.
func request(ref capiv1.IPPoolReference) (class string, pool *ipamv1alpha1.PoolRef) {
	if ref.Kind == kindClass {
		return ref.Name, nil
	}
	return "", &ipamv1alpha1.PoolRef{Name: ref.Name}
}

// consumerOf is the key of the IPAddressClaim that an IPClaim is for; false if it is for none.
func consumerOf(claim *ipamv1alpha1.IPClaim) (client.ObjectKey, bool) {
	ref := claim.Spec.OwnerRef
	if ref == nil || ref.APIGroup != capiv1.GroupVersion.Group || ref.Kind != kindClaim || ref.Namespace != claim.Namespace {
		return client.ObjectKey{}, false
	}
	return client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, claim.Name == claimName(ref.Name)
}

// isFor reports whether an IPClaim is that of an IPAddressClaim.
func isFor(claim *ipamv1alpha1.IPClaim, key client.ObjectKey) bool {
	consumer, ok := consumerOf(claim)
	return ok && consumer == key
}

// ensureClaim returns the IPClaim of an IPAddressClaim, made if it is not there. The error is a
// refusal if one is in the way.
func (r *Reconciler) ensureClaim(ctx context.Context, claim *capiv1.IPAddressClaim, pool *source, address *capiv1.IPAddress) (*ipamv1alpha1.IPClaim, error) {
	found, err := r.claim(ctx, claim, pool)
	if err != nil {
		return nil, err
	}
	if err := compareClaim(found, claim); err != nil {
		return nil, err
	}
	if found.DeletionTimestamp == nil {
		return found, r.hold(ctx, found)
	}
	if found.Status.AllocatedCIDR != "" || address != nil {
		return found, nil // it is held by the finalizer, with its address
	}
	if err := r.letGo(ctx, found); err != nil {
		return nil, err
	}
	return nil, &refusal{reason: clusterv1.NotReadyReason, message: fmt.Sprintf("IPClaim %s was deleted; another one follows", found.Name)}
}

// claim reads the IPClaim of an IPAddressClaim from the cache, and makes it if it is not there.
func (r *Reconciler) claim(ctx context.Context, claim *capiv1.IPAddressClaim, pool *source) (*ipamv1alpha1.IPClaim, error) {
	found := &ipamv1alpha1.IPClaim{}
	err := r.Get(ctx, claimKey(client.ObjectKeyFromObject(claim)), found)
	if apierrors.IsNotFound(err) {
		return r.createClaim(ctx, claim, pool)
	}
	if err != nil {
		return nil, fmt.Errorf("read IPClaim %s: %w", claimName(claim.Name), err)
	}
	return found, nil
}

// createClaim makes the IPClaim of an IPAddressClaim: for the address of its IPAddress, if the
// server has one. It returns the one that is there, if the cache did not show it yet.
func (r *Reconciler) createClaim(ctx context.Context, claim *capiv1.IPAddressClaim, pool *source) (*ipamv1alpha1.IPClaim, error) {
	key, address, made := client.ObjectKeyFromObject(claim), &capiv1.IPAddress{}, newClaim(claim)
	absent, err := r.gone(ctx, key, address)
	if err != nil {
		return nil, err
	}
	made.Spec.PrefixLength = pool.bits()
	if !absent && belongs(address, key) {
		made.Spec.Address = address.Spec.Address
	} else if err := r.pinned(ctx); err != nil {
		return nil, err
	}
	err = r.Create(ctx, made) // the answer has the address
	if !apierrors.IsAlreadyExists(err) {
		return made, err
	}
	found := &ipamv1alpha1.IPClaim{}
	if err := r.Live.Get(ctx, claimKey(key), found); err != nil {
		return nil, fmt.Errorf("read IPClaim %s: %w", made.Name, err)
	}
	return found, nil
}

// compareClaim refuses an IPClaim that is not that of the IPAddressClaim.
func compareClaim(found *ipamv1alpha1.IPClaim, claim *capiv1.IPAddressClaim) error {
	class, pool := request(claim.Spec.PoolRef)
	switch {
	case !isFor(found, client.ObjectKeyFromObject(claim)):
		return failed("IPClaim %s is not of this IPAddressClaim; delete that IPClaim, or use another name", found.Name)
	case found.Spec.ClassName != class, (found.Spec.PoolRef == nil) != (pool == nil), pool != nil && found.Spec.PoolRef.Name != pool.Name:
		return failed("IPClaim %s is of another pool than spec.poolRef; delete this IPAddressClaim, and create it again", found.Name)
	}
	return nil
}

// hold puts the finalizer on an IPClaim, unless it has it.
func (r *Reconciler) hold(ctx context.Context, claim *ipamv1alpha1.IPClaim) error {
	before := patch.Snapshot(claim)
	controllerutil.AddFinalizer(claim, Finalizer)
	return before.Patch(ctx, r.Client, claim)
}

// letGo takes the finalizer off an IPClaim.
func (r *Reconciler) letGo(ctx context.Context, claim *ipamv1alpha1.IPClaim) error {
	before := patch.Snapshot(claim)
	controllerutil.RemoveFinalizer(claim, Finalizer)
	return client.IgnoreNotFound(before.Patch(ctx, r.Client, claim))
}
