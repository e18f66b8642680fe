package capi

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// These kinds may be named by spec.poolRef of an IPAddressClaim.
const (
	kindPool  = "IPPool"
	kindClass = "IPClass"
)

// managed reports whether a pool reference is to an IPPool or an IPClass.
func managed(ref capiv1.IPPoolReference) bool {
	return ref.APIGroup == ipamv1alpha1.GroupName && (ref.Kind == kindPool || ref.Kind == kindClass)
}

// ours reports whether an IPAddressClaim is for a pool of ours, or was when it got its finalizer.
func ours(claim *capiv1.IPAddressClaim) bool {
	return managed(claim.Spec.PoolRef) || controllerutil.ContainsFinalizer(claim, Finalizer)
}

// source is what spec.poolRef names: an IPPool, or an IPClass.
type source struct {
	// object is the IPPool or IPClass, which may be paused.
	object client.Object
	// family is empty for a pool that has no block yet.
	family ipamv1alpha1.IPFamily
}

// bits returns the prefix length of a single address.
func (s *source) bits() int32 {
	if s.family == ipamv1alpha1.IPv6 {
		return 128
	}
	return 32
}

// sourceOf returns the source for an IPPool or an IPClass.
func sourceOf(object client.Object) *source {
	switch object := object.(type) {
	case *ipamv1alpha1.IPClass:
		return &source{object: object, family: object.Spec.IPFamily}
	case *ipamv1alpha1.IPPool:
		return &source{object: object, family: cmp.Or(object.Status.IPFamily, object.Spec.IPFamily)}
	default:
		panic(fmt.Sprintf("%T is no pool", object))
	}
}

// source reads from the cache what spec.poolRef names. The error is a refusal if that does not exist, or has no family
// yet.
func (c Claims) source(ctx context.Context, ref capiv1.IPPoolReference) (*source, error) {
	var object client.Object = &ipamv1alpha1.IPPool{}
	if ref.Kind == kindClass {
		if c.Names.beside() {
			return c.backing(ctx, ref.Name)
		}
		object = &ipamv1alpha1.IPClass{}
	}
	err := c.Get(ctx, client.ObjectKey{Name: ref.Name}, object)
	if apierrors.IsNotFound(err) {
		return nil, notReady("%s %s does not exist; create it, the address then follows", ref.Kind, ref.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", ref.Kind, ref.Name, err)
	}
	found := sourceOf(object)
	if found.family == "" {
		return nil, notReady("%s %s has no block yet", ref.Kind, ref.Name)
	}
	return found, nil
}

// backing returns an IPPool of the workspace that backs a class, in place of the class: not every workspace shows its
// classes, and an IPAddress needs the gateway of a pool. It returns the first by name of those that are not paused, or
// a paused one if all are.
func (c Claims) backing(ctx context.Context, class string) (*source, error) {
	pools := &ipamv1alpha1.IPPoolList{}
	if err := c.List(ctx, pools); err != nil {
		return nil, fmt.Errorf("list IPPools: %w", err)
	}
	backs := slices.DeleteFunc(pools.Items, func(pool ipamv1alpha1.IPPool) bool {
		return !slices.Contains(pool.Spec.ClassNames, class) || sourceOf(&pool).family == ""
	})
	slices.SortFunc(backs, func(a, b ipamv1alpha1.IPPool) int { return cmp.Compare(a.Name, b.Name) })
	running := slices.IndexFunc(backs, func(pool ipamv1alpha1.IPPool) bool { return !annotated(&pool) })
	if len(backs) > 0 {
		return sourceOf(&backs[max(running, 0)]), nil
	}
	return nil, notReady("no IPPool of the workspace backs IPClass %s; name the class in spec.classNames of one", class)
}

// origin reads the IPPool that the address of an IPClaim is from.
func (c Claims) origin(ctx context.Context, bound *ipamv1alpha1.IPClaim) (*ipamv1alpha1.IPPool, error) {
	ref := bound.Status.PoolRef
	if ref == nil || ref.ProjectRef != nil {
		return nil, failed("IPClaim %s holds %s of a pool in another workspace, whose gateway cannot be read; "+
			"name an IPPool beside the IPClaim in spec.poolRef", bound.Name, bound.Status.Address)
	}
	pool := &ipamv1alpha1.IPPool{}
	if err := c.Get(ctx, client.ObjectKey{Name: ref.Name}, pool); err != nil {
		return nil, fmt.Errorf("read the IPPool of IPClaim %s: %w", bound.Name, err)
	}
	return pool, nil
}
