// Package gen builds objects of the API for tests, so that a test names only what matters in it:
//
//	gen.Claim("web", gen.OfClass("internal"), gen.Length(28))
//	gen.Pool("a", gen.CIDR("10.0.0.0/8"), gen.Backs("internal"))
//
// All other fields have the defaults of the API server.
package gen

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Class returns an IPv4 class for the whole platform.
func Class(name string, options ...ClassOption) *ipamv1alpha1.IPClass {
	class := &ipamv1alpha1.IPClass{TypeMeta: kind("IPClass"), ObjectMeta: meta(name)}
	class.Spec = ipamv1alpha1.IPClassSpec{
		Provisioner:   ipamv1alpha1.NativeProvisioner,
		IPFamily:      ipamv1alpha1.IPv4,
		Strategy:      ipamv1alpha1.FirstFit,
		ReclaimPolicy: ipamv1alpha1.ReclaimDelete,
		Visibility:    ipamv1alpha1.VisibilityPlatform,
	}
	for _, option := range options {
		option.class(class)
	}
	return class
}

// Pool returns a root pool, 10.0.0.0/16, for the claims of its own workspace.
func Pool(name string, options ...PoolOption) *ipamv1alpha1.IPPool {
	pool := &ipamv1alpha1.IPPool{TypeMeta: kind("IPPool"), ObjectMeta: meta(name)}
	pool.Spec = ipamv1alpha1.IPPoolSpec{
		CIDR:       "10.0.0.0/16",
		Allocation: ipamv1alpha1.PoolAllocation{Strategy: ipamv1alpha1.FirstFit},
		Visibility: ipamv1alpha1.VisibilityConsumer,
	}
	for _, option := range options {
		option.pool(pool)
	}
	return pool
}

// Claim returns a claim on the default class, in the namespace default.
func Claim(name string, options ...ClaimOption) *ipamv1alpha1.IPClaim {
	claim := &ipamv1alpha1.IPClaim{TypeMeta: kind("IPClaim"), ObjectMeta: meta(name)}
	claim.Namespace = metav1.NamespaceDefault
	for _, option := range options {
		option.claim(claim)
	}
	return claim
}

// Allocation returns the record of a block of IPv4 from the pool, held by the
// claim of that name in the namespace default.
func Allocation(claim, pool, cidr string, options ...AllocationOption) *ipamv1alpha1.IPAllocation {
	allocation := &ipamv1alpha1.IPAllocation{TypeMeta: kind("IPAllocation")}
	allocation.ObjectMeta = meta(ipamv1alpha1.AllocationName(metav1.NamespaceDefault, claim))
	allocation.Namespace = metav1.NamespaceDefault
	allocation.Spec = ipamv1alpha1.IPAllocationSpec{
		IPFamily:      ipamv1alpha1.IPv4,
		PoolRef:       ipamv1alpha1.PoolRef{Name: pool},
		ClaimRef:      &ipamv1alpha1.ClaimRef{Name: claim, UID: uid(claim)},
		ReclaimPolicy: ipamv1alpha1.ReclaimDelete,
	}
	allocation.Status = ipamv1alpha1.IPAllocationStatus{Phase: ipamv1alpha1.AllocationReady, AllocatedCIDR: cidr}
	for _, option := range options {
		option.allocation(allocation)
	}
	return allocation
}

func kind(name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: ipamv1alpha1.GroupVersion.String(), Kind: name}
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: uid(name), Generation: 1}
}

// uid returns the UID of an object that is given no other: a function of its name.
func uid(name string) types.UID { return types.UID("uid-of-" + name) }

// UID replaces the UID, which is otherwise made from the name.
func UID(uid types.UID) MetaOption {
	return func(meta *metav1.ObjectMeta) { meta.UID = uid }
}

// Namespace replaces the namespace default.
func Namespace(namespace string) MetaOption {
	return func(meta *metav1.ObjectMeta) { meta.Namespace = namespace }
}

// Label adds a label.
func Label(key, value string) MetaOption {
	return func(meta *metav1.ObjectMeta) { metav1.SetMetaDataLabel(meta, key, value) }
}

// Created sets the time of creation, which otherwise is zero.
func Created(at time.Time) MetaOption {
	return func(meta *metav1.ObjectMeta) { meta.CreationTimestamp = metav1.NewTime(at) }
}
