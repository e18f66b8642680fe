package v1alpha1

import (
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IPPoolStatus is the block of a pool and how much of it is left.
type IPPoolStatus struct {
	// phase is the state in one word; the condition Allocated says why.
	// +optional
	Phase PoolPhase `json:"phase,omitempty"`

	// allocatedCIDR is the block of the pool, in canonical form.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	AllocatedCIDR string `json:"allocatedCIDR,omitempty"`

	// ipFamily is the address family of the pool.
	// +optional
	IPFamily IPFamily `json:"ipFamily,omitempty"`

	// parentPoolRef names the pool that the block of a pool by class is carved from. Absent on every other pool.
	// +optional
	ParentPoolRef *PoolRef `json:"parentPoolRef,omitempty"`

	// capacity counts the addresses of the pool.
	// +optional
	Capacity *PoolCapacity `json:"capacity,omitempty"`

	// utilizationPercent is the allocated part of the total, 0 to 100, rounded to
	// four decimals. Absent while the pool has no block.
	// +optional
	UtilizationPercent *float64 `json:"utilizationPercent,omitempty"`

	// utilization is utilizationPercent as kubectl get shows it, such as 37.5%.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Utilization string `json:"utilization,omitempty"`

	// classes is spec.classNames as kubectl get shows it: edge,internal, or the first
	// and the number of the others.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Classes string `json:"classes,omitempty"`

	// largestFreePrefix is the length of the largest block that could be handed
	// out. Absent when there is none.
	// +optional
	LargestFreePrefix *int32 `json:"largestFreePrefix,omitempty"`

	// scopeDigest identifies what the system has made the pool for: class, scope and workspace. Absent
	// on every other pool.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ScopeDigest string `json:"scopeDigest,omitempty"`

	// uniqueWithin are the roles of spec.scope within whose objects the block of a pool that the system has made is
	// given once: other objects of these have other pools, with the same addresses. Absent on every other pool, and if
	// the block is given once in its parent.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	UniqueWithin []string `json:"uniqueWithin,omitempty"`

	// spaces is the number of address spaces that the pool's addresses are given out in, each once. capacity
	// and utilization are those of the fullest. Absent if the pool names no class with uniqueWithin.
	// +optional
	Spaces int32 `json:"spaces,omitempty"`

	// nextRelease is when the next cooling block is free. Absent when no block cools.
	// +optional
	NextRelease *metav1.Time `json:"nextRelease,omitempty"`

	// ledger says which ledger has the pool's blocks, and how far it had come.
	// +optional
	Ledger *PoolLedger `json:"ledger,omitempty"`

	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Allocated, Ready, InUse, with slices Sliced, and Reconciling,
	// Stalled or Draining while they hold.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:default={{type: "Ready", status: "Unknown", reason: "Pending", message: "the controller has not answered yet", lastTransitionTime: "1970-01-01T00:00:00Z"}}
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Carved reports whether the block of the pool is carved from another pool: that of a child pool, or of a pool by
// class.
func (s IPPoolSpec) Carved() bool { return s.ParentPoolRef != nil || s.ParentClassName != "" }

// Length returns the length of the block that the pool asks for; 0 if it gives none.
func (s IPPoolSpec) Length() int {
	if exact, err := netip.ParsePrefix(string(s.Address)); err == nil {
		return exact.Bits()
	}
	return int(s.PrefixLength)
}

// Parent returns the pool that the block of the pool is carved from; nil of a root pool, and of a pool by class without
// a block.
func (p *IPPool) Parent() *PoolRef {
	if p.Spec.ParentClassName != "" {
		return p.Status.ParentPoolRef
	}
	return p.Spec.ParentPoolRef
}

// PoolCapacity counts addresses, exactly, as decimal strings: allocated and
// available make up total.
type PoolCapacity struct {
	// total is the number of addresses of the pool, network and broadcast included.
	// +kubebuilder:validation:MaxLength=39
	// +required
	Total string `json:"total"`

	// allocated is the number of addresses held, reserved or excluded.
	// +kubebuilder:validation:MaxLength=39
	// +required
	Allocated string `json:"allocated"`

	// available is the number of addresses that can still be handed out.
	// +kubebuilder:validation:MaxLength=39
	// +required
	Available string `json:"available"`

	// cooling is the number of those allocated addresses that were freed, and cannot be
	// allocated again yet. Absent when there are none.
	// +kubebuilder:validation:MaxLength=39
	// +optional
	Cooling string `json:"cooling,omitempty"`
}

// PoolLedger names the ledger that a status is of, and its number of changes then. It
// shows whether a ledger was lost or restored since.
type PoolLedger struct {
	// id is the ledger's own, made at random with it.
	// +kubebuilder:validation:MaxLength=64
	// +required
	ID string `json:"id"`

	// changes counts the changes that were ever made to the pool's address space,
	// as of this status.
	// +kubebuilder:validation:Minimum=0
	// +required
	Changes int64 `json:"changes"`
}
