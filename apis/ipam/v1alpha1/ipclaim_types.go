package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ClaimPhase is the state of a claim in one word.
// +kubebuilder:validation:Enum=Pending;Bound;Releasing;Error
type ClaimPhase string

const (
	// ClaimPending claims have no block yet; the condition Allocated says why.
	ClaimPending ClaimPhase = "Pending"
	// ClaimBound claims hold the block in status.allocatedCIDR.
	ClaimBound ClaimPhase = "Bound"
	// ClaimReleasing claims are deleted, and held by a finalizer of another program.
	ClaimReleasing ClaimPhase = "Releasing"
	// ClaimError claims met a failure of the controller, which retries.
	ClaimError ClaimPhase = "Error"
)

// ClaimTarget names the kind of space that a claim holds.
// +kubebuilder:validation:Enum=Block;ScopeRange
type ClaimTarget string

const (
	// TargetBlock claims hold a block of a pool. It is the default.
	TargetBlock ClaimTarget = "Block"
	// TargetScopeRange claims hold the pool itself that their class has for their scope.
	TargetScopeRange ClaimTarget = "ScopeRange"
)

// IPClaimSpec says what is asked for. Everything but reclaimPolicy is immutable.
// +kubebuilder:validation:XValidation:rule="[has(self.className), has(self.poolRef), has(self.poolSelector)].filter(given, given).size() <= 1",message="spec.className, spec.poolRef and spec.poolSelector exclude each other: give one of them, or none for the default class"
// +kubebuilder:validation:XValidation:rule="!has(self.prefixLength) || self.prefixLength <= 32 || !has(self.ipFamily) || self.ipFamily == 'IPv6'",fieldPath=".prefixLength",message="spec.prefixLength must be 1 to 32 for IPv4"
// +kubebuilder:validation:XValidation:rule="!has(self.address) || !has(self.ipFamily) || (self.ipFamily == 'IPv6') == self.address.contains(':')",fieldPath=".ipFamily",message="address family of spec.ipFamily does not match spec.address: correct one of them, or leave spec.ipFamily out"
// +kubebuilder:validation:XValidation:rule="!has(self.address) || !has(self.prefixLength) || (isCIDR(self.address) ? cidr(self.address).prefixLength() == self.prefixLength : self.prefixLength == (self.address.contains(':') ? 128 : 32))",fieldPath=".prefixLength",message="spec.prefixLength does not match spec.address: an address with a prefix has that length, a bare one is a /32 or /128; leave spec.prefixLength out, or write the length in spec.address"
// +kubebuilder:validation:XValidation:rule="has(self.className) ? has(oldSelf.className) && self.className == oldSelf.className : !has(oldSelf.className)",fieldPath=".className",message="spec.className is immutable: create another claim"
// +kubebuilder:validation:XValidation:rule="has(self.poolRef) ? has(oldSelf.poolRef) && self.poolRef == oldSelf.poolRef : !has(oldSelf.poolRef)",fieldPath=".poolRef",message="spec.poolRef is immutable: create another claim"
// +kubebuilder:validation:XValidation:rule="has(self.poolSelector) ? has(oldSelf.poolSelector) && self.poolSelector == oldSelf.poolSelector : !has(oldSelf.poolSelector)",fieldPath=".poolSelector",message="spec.poolSelector is immutable: create another claim"
// +kubebuilder:validation:XValidation:rule="has(self.ipFamily) ? has(oldSelf.ipFamily) && self.ipFamily == oldSelf.ipFamily : !has(oldSelf.ipFamily)",fieldPath=".ipFamily",message="spec.ipFamily is immutable: create another claim"
// +kubebuilder:validation:XValidation:rule="has(self.prefixLength) ? has(oldSelf.prefixLength) && self.prefixLength == oldSelf.prefixLength : !has(oldSelf.prefixLength)",fieldPath=".prefixLength",message="spec.prefixLength is immutable: create another claim"
// +kubebuilder:validation:XValidation:rule="has(self.address) ? has(oldSelf.address) && self.address == oldSelf.address : !has(oldSelf.address)",fieldPath=".address",message="spec.address is immutable: create another claim"
// +kubebuilder:validation:XValidation:rule="has(self.number) ? has(oldSelf.number) && self.number == oldSelf.number : !has(oldSelf.number)",fieldPath=".number",message="spec.number is immutable: create another claim"
// +kubebuilder:validation:XValidation:rule="!has(self.number) || ![has(self.address), has(self.poolRef), has(self.poolSelector)].exists(given, given)",fieldPath=".number",message="spec.number is given by a class: remove spec.address, spec.poolRef and spec.poolSelector, or spec.number"
// +kubebuilder:validation:XValidation:rule="has(self.ownerRef) ? has(oldSelf.ownerRef) && self.ownerRef == oldSelf.ownerRef : !has(oldSelf.ownerRef)",fieldPath=".ownerRef",message="spec.ownerRef is immutable: create another claim"
// +kubebuilder:validation:XValidation:rule="has(self.unmetPolicy) ? has(oldSelf.unmetPolicy) && self.unmetPolicy == oldSelf.unmetPolicy : !has(oldSelf.unmetPolicy)",fieldPath=".unmetPolicy",message="spec.unmetPolicy is immutable: create another claim"
// +kubebuilder:validation:XValidation:rule="has(self.retainedPolicy) ? has(oldSelf.retainedPolicy) && self.retainedPolicy == oldSelf.retainedPolicy : !has(oldSelf.retainedPolicy)",fieldPath=".retainedPolicy",message="spec.retainedPolicy is immutable: create another claim"
// +kubebuilder:validation:XValidation:rule="has(self.scope) ? has(oldSelf.scope) && self.scope == oldSelf.scope : !has(oldSelf.scope)",fieldPath=".scope",message="spec.scope is immutable: create another claim"
// +kubebuilder:validation:XValidation:rule="(has(self.target) && self.target == 'ScopeRange') == (has(oldSelf.target) && oldSelf.target == 'ScopeRange')",fieldPath=".target",message="spec.target is immutable: create another claim"
// +kubebuilder:validation:XValidation:rule="!has(self.target) || self.target == 'Block' || ![has(self.number), has(self.reclaimPolicy), has(self.poolRef), has(self.poolSelector)].exists(given, given)",fieldPath=".target",message="spec.target ScopeRange holds the pool that a class has for a scope: remove spec.number, spec.reclaimPolicy, spec.poolRef and spec.poolSelector, or claim a Block"
type IPClaimSpec struct {
	// className is the class to allocate by. Without className, poolRef and
	// poolSelector the default class is used: that of ipFamily if given, else the
	// only default there is, else the IPv4 one.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	ClassName string `json:"className,omitempty"`

	// poolRef names the pool to allocate from. A pool of another workspace, given
	// by projectRef, must be shared with this one.
	// +optional
	PoolRef *PoolRef `json:"poolRef,omitempty"`

	// poolSelector selects the pools to allocate from by their labels. It is
	// deprecated, and kubectl warns: name a class by className.
	// +optional
	PoolSelector *PoolSelector `json:"poolSelector,omitempty"`

	// ipFamily is the address family. It must agree with the class or pool, and
	// is theirs when left out.
	// +optional
	IPFamily IPFamily `json:"ipFamily,omitempty"`

	// prefixLength is the length of the block: 1 to 32 for IPv4, 1 to 128 for
	// IPv6. May be left out when the class has a default length, or when the
	// class or pool allows just one. With the target ScopeRange it is the length of the
	// pool that the claim makes.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=128
	// +optional
	PrefixLength int32 `json:"prefixLength,omitempty"`

	// address asks for exactly this address (192.0.2.7) or block (192.0.2.0/28),
	// and for no other when it is taken. With the target ScopeRange it is the CIDR of the pool that
	// the claim makes.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self) ? ip.isCanonical(self) : isCIDR(self) && string(cidr(self).masked()) == self",message="invalid address: write an address such as 192.0.2.7 or a network such as 192.0.2.0/28",messageExpression="isIP(self) ? 'invalid address: write %s'.format([string(ip(self))]) : isCIDR(self) ? 'invalid CIDR: %s is not in network form; write %s'.format([self, string(cidr(self).masked())]) : 'invalid address: write an address such as 192.0.2.7 or a network such as 192.0.2.0/28'"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self).prefixLength() > 0",message="invalid address: a network of length 0 is not a block; write one of length 1 or more, such as 192.0.2.0/28",messageExpression="'invalid address: %s is not a block; write one of length 1 or more, such as 192.0.2.0/28'.format([self])"
	// +optional
	Address string `json:"address,omitempty"`

	// number asks for the address with exactly this number, by a class with spec.number, and for no other when it is taken.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	// +optional
	Number *int64 `json:"number,omitempty"`

	// scope names the object for each role that the class requires, such as network and location. Roles
	// that it does not require are ignored.
	// +optional
	Scope Scope `json:"scope,omitempty"`

	// target is the kind of space that the claim holds. Block: a block of a pool. ScopeRange: the pool itself that the
	// class has for this scope, by its poolPer. It is made if it is not there; the claim can be deleted
	// when nothing is left inside. Left out, it is Block.
	// +optional
	Target ClaimTarget `json:"target,omitempty"`

	// reclaimPolicy overrides that of the class. It may be changed at any time; its
	// value at the deletion of the claim counts.
	// +optional
	ReclaimPolicy ReclaimPolicy `json:"reclaimPolicy,omitempty"`

	// unmetPolicy says what CREATE does with a claim that cannot be met now, and
	// overrides that of the class. Wait stores the claim, which binds when it can.
	// Refuse fails the CREATE with the reason. It has no meaning afterwards.
	// +optional
	UnmetPolicy UnmetPolicy `json:"unmetPolicy,omitempty"`

	// retainedPolicy overrides that of the class, and applies if an allocation of the
	// claim's name is retained. Wait: the claim waits until that is deleted. Reuse: the
	// claim gets the retained block, if class and length agree.
	// +optional
	RetainedPolicy RetainedPolicy `json:"retainedPolicy,omitempty"`

	// ownerRef names the object that uses the address.
	// +optional
	OwnerRef *OwnerRef `json:"ownerRef,omitempty"`
}

// IPClaimStatus is the answer to a claim.
type IPClaimStatus struct {
	// phase is the state in one word; the condition Allocated says why.
	// +optional
	Phase ClaimPhase `json:"phase,omitempty"`

	// allocatedCIDR is the block that the claim holds, in canonical form.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	AllocatedCIDR string `json:"allocatedCIDR,omitempty"`

	// allocationID says which allocation of the ledger this is; it is another one whenever the block is another.
	// Empty: the UID of the claim is it. The system writes it.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=36
	// +optional
	AllocationID types.UID `json:"allocationID,omitempty"`

	// address is the block as a bare address, when it is just one (a /32 or /128).
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Address string `json:"address,omitempty"`

	// number is that of the address, by a class with spec.number.
	// +optional
	Number *int64 `json:"number,omitempty"`

	// className is the class that was used, the default class included. Of a claim
	// that waits it is the class asked for.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	ClassName string `json:"className,omitempty"`

	// ipFamily is the address family of the block.
	// +optional
	IPFamily IPFamily `json:"ipFamily,omitempty"`

	// poolRef names the pool that the block is from; projectRef is absent when the
	// pool is in this workspace.
	// +optional
	PoolRef *PoolRef `json:"poolRef,omitempty"`

	// requested is the block that was asked for as kubectl get shows it: an address,
	// or a length such as /28, which may be the default of the class.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Requested string `json:"requested,omitempty"`

	// boundAllocationRef names the IPAllocation that records the block. A ScopeRange has none.
	// +optional
	BoundAllocationRef *LocalRef `json:"boundAllocationRef,omitempty"`

	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Allocated, Ready, and Reconciling or Stalled while they hold.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:default={{type: "Ready", status: "Unknown", reason: "Pending", message: "the controller has not answered yet", lastTransitionTime: "1970-01-01T00:00:00Z"}}
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// IPClaim is a request for a block of addresses. A claim that cannot be met
// stays, says why in its condition Allocated, and binds by itself when the cause
// is gone. Deleting it frees the block, unless its reclaimPolicy is Retain.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=ipclaims,scope=Namespaced,shortName=ipclaim,categories=ipam
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.status.className`
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.status.poolRef.name`
// +kubebuilder:printcolumn:name="Requested",type=string,JSONPath=`.status.requested`
// +kubebuilder:printcolumn:name="Allocated",type=string,JSONPath=`.status.allocatedCIDR`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Allocated")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reclaim",type=string,priority=1,JSONPath=`.spec.reclaimPolicy`
// +kubebuilder:printcolumn:name="Target",type=string,priority=1,JSONPath=`.spec.target`
// +kubebuilder:printcolumn:name="Scope",type=string,priority=1,JSONPath=`.spec.scope`
// +kubebuilder:printcolumn:name="Owner",type=string,priority=1,JSONPath=`.spec.ownerRef.name`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Allocated")].message`
// ---
// This version has no status subresource, because a server with one drops the status of
// each CREATE. The controller writes in package v1controller1; a policy refuses a status
// that any other user writes.
type IPClaim struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says what is asked for. Everything but reclaimPolicy is immutable.
	// +required
	Spec IPClaimSpec `json:"spec"`

	// status is the answer. Written by the system.
	// +kubebuilder:default={}
	// +optional
	Status IPClaimStatus `json:"status,omitzero"`
}

// IPClaimList is a list of claims.
//
// +kubebuilder:object:root=true
type IPClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the claims.
	Items []IPClaim `json:"items"`
}
