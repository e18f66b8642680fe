package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AllocationPhase is the state of an allocation in one word.
// +kubebuilder:validation:Enum=Pending;Ready;Exhausted;Error
type AllocationPhase string

// The phases of an allocation.
const (
	AllocationPending   AllocationPhase = "Pending"
	AllocationReady     AllocationPhase = "Ready"
	AllocationExhausted AllocationPhase = "Exhausted"
	AllocationError     AllocationPhase = "Error"
)

// AllocationPurpose is the use of a block.
// +kubebuilder:validation:Enum=Claim
type AllocationPurpose string

// PurposeClaim is the purpose of a block that a claim holds, or has held.
const PurposeClaim AllocationPurpose = "Claim"

// ClaimRef names the claim that holds an allocation.
type ClaimRef struct {
	// name of the IPClaim, in the namespace of the allocation.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name"`

	// uid of the IPClaim: a later claim of the same name is another one.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	UID types.UID `json:"uid"`

	// allocationID is that of the claim; absent if its UID serves as one.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=36
	// +optional
	AllocationID types.UID `json:"allocationID,omitempty"`
}

// IPAllocationSpec says what was given, from where, and to whom.
// +kubebuilder:validation:XValidation:rule="self.ipFamily == oldSelf.ipFamily",fieldPath=".ipFamily",message="spec.ipFamily is immutable: an allocation records what was given"
// +kubebuilder:validation:XValidation:rule="self.poolRef == oldSelf.poolRef",fieldPath=".poolRef",message="spec.poolRef is immutable: an allocation records what was given"
// +kubebuilder:validation:XValidation:rule="has(self.className) ? has(oldSelf.className) && self.className == oldSelf.className : !has(oldSelf.className)",fieldPath=".className",message="spec.className is immutable: an allocation records what was given"
// +kubebuilder:validation:XValidation:rule="has(self.ownerRef) ? has(oldSelf.ownerRef) && self.ownerRef == oldSelf.ownerRef : !has(oldSelf.ownerRef)",fieldPath=".ownerRef",message="spec.ownerRef is immutable: an allocation records what was given"
// +kubebuilder:validation:XValidation:rule="!has(self.claimRef) || has(oldSelf.claimRef) && self.claimRef == oldSelf.claimRef",fieldPath=".claimRef",message="spec.claimRef may only be removed: an allocation is never handed to another claim"
// +kubebuilder:validation:XValidation:rule="has(self.scope) ? has(oldSelf.scope) && self.scope == oldSelf.scope : !has(oldSelf.scope)",fieldPath=".scope",message="spec.scope is immutable: an allocation records what was given"
type IPAllocationSpec struct {
	// ipFamily is the address family of the block.
	// +required
	IPFamily IPFamily `json:"ipFamily"`

	// poolRef names the pool that the block is from; projectRef is absent when the
	// pool is in this workspace.
	// +required
	PoolRef PoolRef `json:"poolRef"`

	// className is the class by which the block was given. Absent when the claim
	// named a pool.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	ClassName string `json:"className,omitempty"`

	// claimRef names the claim that holds the block. Absent once the claim is gone
	// and the allocation was retained; deleting it then frees the block.
	// +optional
	ClaimRef *ClaimRef `json:"claimRef,omitempty"`

	// scope has the objects within which the addresses are unique: the part of the claim's scope that
	// is in uniqueWithin of the class. Absent if they are unique in the pool.
	// +optional
	Scope Scope `json:"scope,omitempty"`

	// purpose is the use of the block.
	// +optional
	Purpose AllocationPurpose `json:"purpose,omitempty"`

	// reclaimPolicy says what happens to the block when the claim is deleted.
	// +required
	ReclaimPolicy ReclaimPolicy `json:"reclaimPolicy"`

	// ownerRef is the ownerRef of the claim: the object that uses the address.
	// +optional
	OwnerRef *OwnerRef `json:"ownerRef,omitempty"`
}

// IPAllocationStatus is the block that was given.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.allocatedCIDR) || has(self.allocatedCIDR) && self.allocatedCIDR == oldSelf.allocatedCIDR",fieldPath=".allocatedCIDR",message="status.allocatedCIDR is immutable: an allocation records what was given"
type IPAllocationStatus struct {
	// phase is the state in one word; the conditions say why.
	// +optional
	Phase AllocationPhase `json:"phase,omitempty"`

	// allocatedCIDR is the block, in canonical form.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	AllocatedCIDR string `json:"allocatedCIDR,omitempty"`

	// address is the block as a bare address, when it is just one.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Address string `json:"address,omitempty"`

	// number is that of the address, by a class with spec.number.
	// +optional
	Number *int64 `json:"number,omitempty"`

	// scopeDigest identifies the address space of the pool that the block is in. Absent if the pool has one.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ScopeDigest string `json:"scopeDigest,omitempty"`

	// expires is when a retained allocation is released. Absent while its claim exists,
	// and when the allocation is kept until it is deleted.
	// +optional
	Expires *metav1.Time `json:"expires,omitempty"`

	// conditions are Allocated and Ready.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:default={{type: "Ready", status: "Unknown", reason: "Pending", message: "the controller has not answered yet", lastTransitionTime: "1970-01-01T00:00:00Z"}}
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// IPAllocation is the record of a block that was given to a claim. It lives
// beside the claim and is written by the system only. A retained one, which has
// no claimRef any more, may be deleted to free its block.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ipallocations,scope=Namespaced,shortName=ipalloc,categories=ipam
// +kubebuilder:printcolumn:name="Allocated",type=string,JSONPath=`.status.allocatedCIDR`
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.poolRef.name`
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.className`
// +kubebuilder:printcolumn:name="Claim",type=string,JSONPath=`.spec.claimRef.name`
// +kubebuilder:printcolumn:name="Retained-From",type=string,JSONPath=`.metadata.annotations.ipam\.miloapis\.com/retained-from`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reclaim",type=string,priority=1,JSONPath=`.spec.reclaimPolicy`
// +kubebuilder:printcolumn:name="Expires",type=string,priority=1,JSONPath=`.status.expires`
// +kubebuilder:printcolumn:name="Scope",type=string,priority=1,JSONPath=`.spec.scope`
// +kubebuilder:printcolumn:name="Owner",type=string,priority=1,JSONPath=`.spec.ownerRef.name`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Allocated")].message`
type IPAllocation struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The name is alloc- and the first
	// 16 hexadecimal digits of SHA-256 of <namespace>/<claim name>; all 64 digits
	// if that name belongs to the allocation of another claim name.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec names the block that was given, its pool and its claim.
	// +required
	Spec IPAllocationSpec `json:"spec"`

	// status is the block that was given.
	// +kubebuilder:default={}
	// +optional
	Status IPAllocationStatus `json:"status,omitzero"`
}

// IPAllocationList is a list of allocations.
//
// +kubebuilder:object:root=true
type IPAllocationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the allocations.
	Items []IPAllocation `json:"items"`
}
