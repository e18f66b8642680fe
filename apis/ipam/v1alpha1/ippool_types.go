package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PoolPhase is the state of a pool in one word.
// +kubebuilder:validation:Enum=Pending;Ready;Exhausted;Error
type PoolPhase string

const (
	// PoolPending pools have no block yet; the condition Allocated says why. Or they are deleted and in use; the
	// condition Draining says by whom.
	PoolPending PoolPhase = "Pending"
	// PoolReady pools hand out blocks.
	PoolReady PoolPhase = "Ready"
	// PoolExhausted pools have nothing available. They are still offered.
	PoolExhausted PoolPhase = "Exhausted"
	// PoolError pools can never hand out blocks as they are written, or as their classes are.
	PoolError PoolPhase = "Error"
)

// PoolAllocation bounds what claims may take from a pool.
// +kubebuilder:validation:XValidation:rule="!has(self.minPrefixLength) || !has(self.maxPrefixLength) || self.minPrefixLength <= self.maxPrefixLength",message="minPrefixLength must not exceed maxPrefixLength"
type PoolAllocation struct {
	// minPrefixLength is the shortest prefix length, that is the largest block,
	// that may be taken. Left out, there is no bound but the pool.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=128
	// +optional
	MinPrefixLength int32 `json:"minPrefixLength,omitempty"`

	// maxPrefixLength is the longest prefix length, that is the smallest block,
	// that may be taken. Left out, single addresses may be taken.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=128
	// +optional
	MaxPrefixLength int32 `json:"maxPrefixLength,omitempty"`

	// strategy says how a block is chosen for claims that name this pool. FirstFit
	// takes the lowest free block, BestFit the smallest that still fits. Claims by
	// class use the strategy of the class.
	// +kubebuilder:default=FirstFit
	// +optional
	Strategy Strategy `json:"strategy,omitempty"`
}

// PoolSlices gives every admitted workspace one block of its own.
type PoolSlices struct {
	// prefixLength is the length of each slice. Immutable while the pool is in use.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=128
	// +required
	PrefixLength int32 `json:"prefixLength"`

	// maxSlices is the number of slices given at most. Left out, as many as fit.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	MaxSlices int32 `json:"maxSlices,omitempty"`
}

// IPPoolSpec is the address space of a pool, and the rules for claiming from it.
// +kubebuilder:validation:XValidation:rule="has(self.cidr) || has(self.parentPoolRef) || has(self.parentClassName)",fieldPath=".cidr",message="spec.cidr is required on a root pool: give spec.cidr, or spec.parentPoolRef and spec.prefixLength for a child pool, or spec.parentClassName for a pool by class"
// +kubebuilder:validation:XValidation:rule="!has(self.parentPoolRef) || !has(self.parentClassName)",fieldPath=".parentClassName",message="spec.parentClassName and spec.parentPoolRef exclude each other: give spec.parentPoolRef to carve from that pool, or spec.parentClassName to carve from a pool of the class"
// +kubebuilder:validation:XValidation:rule="!has(self.parentPoolRef) && !has(self.parentClassName) || !has(self.cidr)",fieldPath=".cidr",message="spec.cidr is not allowed on a child pool, whose block is carved from the parent: write spec.address to ask for this block, or remove spec.parentPoolRef and spec.parentClassName"
// +kubebuilder:validation:XValidation:rule="!has(self.address) || has(self.parentPoolRef) || has(self.parentClassName)",fieldPath=".address",message="spec.address is not allowed on a root pool, whose block is spec.cidr: remove it, or give spec.parentPoolRef or spec.parentClassName"
// +kubebuilder:validation:XValidation:rule="!has(self.address) || !isCIDR(self.address) || cidr(self.address).prefixLength() > 0",fieldPath=".address",message="spec.address must have a prefix length of 1 or more: write a block such as 192.0.2.0/28"
// +kubebuilder:validation:XValidation:rule="!has(self.address) || !isCIDR(self.address) || !has(self.prefixLength) || cidr(self.address).prefixLength() == self.prefixLength",fieldPath=".prefixLength",message="spec.prefixLength does not match spec.address: leave spec.prefixLength out, or write the length in spec.address"
// +kubebuilder:validation:XValidation:rule="!has(self.parentClassName) || !has(self.slices)",fieldPath=".slices",message="spec.slices is not allowed on a pool by class: slice a root pool, or a child of one"
// +kubebuilder:validation:XValidation:rule="!has(self.parentPoolRef) && !has(self.parentClassName) || !has(self.ipFamily)",fieldPath=".ipFamily",message="spec.ipFamily is not allowed on a child pool, which has the family of the parent: remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.parentPoolRef) && !has(self.parentClassName) || !has(self.addressDomain)",fieldPath=".addressDomain",message="spec.addressDomain is not allowed on a child pool, which is in the domain of the parent: remove it"
// +kubebuilder:validation:XValidation:rule="has(self.parentPoolRef) ? has(self.prefixLength) || has(self.address) : has(self.parentClassName) || !has(self.prefixLength)",fieldPath=".prefixLength",message="spec.prefixLength and spec.parentPoolRef go together: give both on a child pool, or spec.address instead of the length, and neither on a root pool"
// +kubebuilder:validation:XValidation:rule="!has(self.cidr) || !has(self.ipFamily) || (self.ipFamily == 'IPv6') == self.cidr.contains(':')",fieldPath=".ipFamily",message="address family of spec.ipFamily does not match spec.cidr: correct one of them, or leave spec.ipFamily out"
// +kubebuilder:validation:XValidation:rule="!has(self.cidr) || self.cidr.contains(':') || [self.?allocation.?minPrefixLength, self.?allocation.?maxPrefixLength, self.?slices.?prefixLength, self.?reservations.?unitPrefixLength].all(length, length.orValue(0) <= 32)",message="prefix lengths must be 1 to 32 in a pool of IPv4"
// +kubebuilder:validation:XValidation:rule="!has(self.cidr) || !isCIDR(self.cidr) || [self.?allocation.?maxPrefixLength, self.?slices.?prefixLength, self.?reservations.?unitPrefixLength].all(length, length.orValue(128) >= cidr(self.cidr).prefixLength())",message="a prefix length is shorter than that of spec.cidr: no such block fits into this pool"
// +kubebuilder:validation:XValidation:rule="!has(self.slices) || self.slices.prefixLength >= self.?allocation.?minPrefixLength.orValue(1) && self.slices.prefixLength <= self.?allocation.?maxPrefixLength.orValue(128)",fieldPath=".slices",message="spec.slices.prefixLength must be within spec.allocation.minPrefixLength and maxPrefixLength, which bound slices, too: no slice could be given"
// +kubebuilder:validation:XValidation:rule="!has(self.cidr) || !isCIDR(self.cidr) || !has(self.excludedCIDRs) || self.excludedCIDRs.all(excluded, !isCIDR(excluded) || cidr(self.cidr).containsCIDR(excluded))",fieldPath=".excludedCIDRs",message="spec.excludedCIDRs must be inside spec.cidr",messageExpression="'spec.excludedCIDRs must be inside spec.cidr: %s is not inside %s'.format([self.excludedCIDRs.filter(excluded, isCIDR(excluded) && !cidr(self.cidr).containsCIDR(excluded))[0], self.cidr])"
// +kubebuilder:validation:XValidation:rule="has(self.cidr) ? has(oldSelf.cidr) && self.cidr == oldSelf.cidr : !has(oldSelf.cidr)",fieldPath=".cidr",message="spec.cidr is immutable: create another pool"
// +kubebuilder:validation:XValidation:rule="has(self.ipFamily) ? has(oldSelf.ipFamily) && self.ipFamily == oldSelf.ipFamily : !has(oldSelf.ipFamily)",fieldPath=".ipFamily",message="spec.ipFamily is immutable: create another pool"
// +kubebuilder:validation:XValidation:rule="has(self.parentPoolRef) ? has(oldSelf.parentPoolRef) && self.parentPoolRef == oldSelf.parentPoolRef : !has(oldSelf.parentPoolRef)",fieldPath=".parentPoolRef",message="spec.parentPoolRef is immutable: create another pool"
// +kubebuilder:validation:XValidation:rule="has(self.prefixLength) ? has(oldSelf.prefixLength) && self.prefixLength == oldSelf.prefixLength : !has(oldSelf.prefixLength)",fieldPath=".prefixLength",message="spec.prefixLength is immutable: create another pool"
// +kubebuilder:validation:XValidation:rule="has(self.parentClassName) ? has(oldSelf.parentClassName) && self.parentClassName == oldSelf.parentClassName : !has(oldSelf.parentClassName)",fieldPath=".parentClassName",message="spec.parentClassName is immutable: create another pool"
// +kubebuilder:validation:XValidation:rule="has(self.address) ? has(oldSelf.address) && self.address == oldSelf.address : !has(oldSelf.address)",fieldPath=".address",message="spec.address is immutable: create another pool"
// A rule has no way to write a number as a short text but a table: the digits of each number, three characters wide.
// +kubebuilder:validation:XValidation:rule="!has(self.cidr) || !isCIDR(self.cidr) || !has(self.gateway) || !isIP(self.gateway) || cidr(self.cidr.substring(0, self.cidr.indexOf('/') + 1) + '0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100101102103104105106107108109110111112113114115116117118119120121122123124125126127128  '.substring(3 * ([self.?networkPrefixLength.orValue(128), cidr(self.cidr).prefixLength()].min()), 3 * ([self.?networkPrefixLength.orValue(128), cidr(self.cidr).prefixLength()].min()) + 3).trim()).containsIP(self.gateway)",fieldPath=".gateway",message="spec.gateway must be an address of the network of the pool: correct it, or give the length of the network in spec.networkPrefixLength",messageExpression="'spec.gateway must be an address of the network of the pool: %s is not in the /%d around %s; correct it, or give the length of the network in spec.networkPrefixLength'.format([self.gateway, [self.?networkPrefixLength.orValue(128), cidr(self.cidr).prefixLength()].min(), self.cidr])"
// +kubebuilder:validation:XValidation:rule="!has(self.cidr) || !isCIDR(self.cidr) || !has(self.gateway) || !isIP(self.gateway) || self.gateway.contains(':') || self.cidr.contains(':') || [self.?networkPrefixLength.orValue(128), cidr(self.cidr).prefixLength()].min() > 30 || !cidr(self.gateway + '/32').containsIP(cidr(self.gateway + '/' + '0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32  '.substring(3 * ([self.?networkPrefixLength.orValue(128), cidr(self.cidr).prefixLength()].min()), 3 * ([self.?networkPrefixLength.orValue(128), cidr(self.cidr).prefixLength()].min()) + 3).trim()).masked().ip()) && [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31].exists(bit, bit >= [self.?networkPrefixLength.orValue(128), cidr(self.cidr).prefixLength()].min() && cidr(self.gateway + '/' + '0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32  '.substring(3 * (bit + 1), 3 * (bit + 1) + 3).trim()).containsIP(cidr(self.gateway + '/' + '0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32  '.substring(3 * (bit), 3 * (bit) + 3).trim()).masked().ip()))",fieldPath=".gateway",message="spec.gateway is the network or broadcast address of the network of the pool: write the address of the router"
// +kubebuilder:validation:XValidation:rule="!has(self.networkPrefixLength) || (has(self.cidr) ? !isCIDR(self.cidr) || self.networkPrefixLength <= cidr(self.cidr).prefixLength() : has(self.prefixLength) ? self.networkPrefixLength <= self.prefixLength : !has(self.address) || !isCIDR(self.address) || self.networkPrefixLength <= cidr(self.address).prefixLength())",fieldPath=".networkPrefixLength",message="spec.networkPrefixLength must not be longer than the prefix length of the pool: the network has all addresses of the pool; write that of the network, or leave it out"
// +kubebuilder:validation:XValidation:rule="!has(self.scope) || self.scope.all(role, has(self.scope[role].name) && size(self.scope[role].name) > 0)",fieldPath=".scope",message="spec.scope has a reference without a name: write the name of the object, or remove the role"
// +kubebuilder:validation:XValidation:rule="has(self.classRef) ? has(oldSelf.classRef) && self.classRef == oldSelf.classRef : !has(oldSelf.classRef)",fieldPath=".classRef",message="spec.classRef is given by the system: leave it as it is"
type IPPoolSpec struct {
	// cidr is the address space of a root pool, such as 10.0.0.0/8. Required on a
	// root pool, not allowed on a child pool. Immutable.
	// +optional
	CIDR CIDR `json:"cidr,omitempty"`

	// ipFamily is the address family of a root pool. It must agree with cidr, and
	// need not be given. Immutable.
	// +optional
	IPFamily IPFamily `json:"ipFamily,omitempty"`

	// parentPoolRef makes this a child pool: its block is carved from the parent,
	// which is in this workspace, or in the one named by projectRef if it is
	// shared with this one. Immutable.
	// +optional
	ParentPoolRef *PoolRef `json:"parentPoolRef,omitempty"`

	// parentClassName makes this a pool by class: its block is carved from a pool that the class offers this
	// workspace, by the rules of a claim by that class, and status.parentPoolRef says from which. A class with
	// poolPer, parentClassName or uniqueWithin offers none. The pool is this workspace's own. Immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	ParentClassName string `json:"parentClassName,omitempty"`

	// address asks for exactly this block of the parent, such as 192.0.2.0/28, and for no other when it is taken.
	// Not allowed on a root pool. Immutable.
	// +optional
	Address CIDR `json:"address,omitempty"`

	// prefixLength is the length of the block to carve from the parent. Required on a child pool without an
	// address; a pool by class gets the default of the class without it. Not allowed on a root pool. Immutable.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=128
	// +optional
	PrefixLength int32 `json:"prefixLength,omitempty"`

	// scope narrows the claims that the pool serves: to those that name the same object for each of
	// these roles. On a pool that the system has made, it has the objects that the pool was made for.
	// +optional
	Scope Scope `json:"scope,omitempty"`

	// classRef names the class by whose poolPer the system has made this pool. Set by the system alone.
	// +optional
	ClassRef *ClassRef `json:"classRef,omitempty"`

	// slices gives every admitted workspace one block of its own, as a child pool
	// of this pool's name in that workspace. Platform workspace only.
	// +optional
	Slices *PoolSlices `json:"slices,omitempty"`

	// addressDomain names a domain of root pools of this workspace that may
	// overlap and still never allocate overlapping blocks. It can be set or removed
	// only while the pool is not in use.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	AddressDomain string `json:"addressDomain,omitempty"`

	// allocation bounds what claims and child pools may take.
	// +kubebuilder:default={}
	// +optional
	Allocation PoolAllocation `json:"allocation,omitzero"`

	// classNames are the classes that this pool backs.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +listType=set
	// +optional
	ClassNames []string `json:"classNames,omitempty"`

	// maxPerConsumer is the number of addresses that one workspace may hold of
	// this pool, in decimal. Left out, there is no limit.
	// +optional
	MaxPerConsumer AddressCount `json:"maxPerConsumer,omitempty"`

	// visibility says which claims may use the pool. consumer: claims of this workspace.
	// platform, in the platform workspace only: backs classes for every workspace,
	// narrowed by consumers. shared: claims of the workspaces that consumers
	// lists may name the pool by poolRef.projectRef.
	// +kubebuilder:default=consumer
	// +optional
	Visibility Visibility `json:"visibility,omitempty"`

	// consumers lists the workspaces that may use a shared pool, or narrows a
	// platform one: exact paths (root:acme:web) or subtrees (root:acme:*, all
	// below root:acme). Empty means no other workspace on a shared pool, and every
	// workspace on a platform one.
	// +kubebuilder:validation:MaxItems=256
	// +listType=set
	// +optional
	Consumers []Consumer `json:"consumers,omitempty"`

	// reservations keeps blocks at the two edges from being handed out. They count
	// as allocated.
	// +optional
	Reservations *PoolReservations `json:"reservations,omitempty"`

	// excludedCIDRs are blocks inside the pool that are never handed out. They
	// count as allocated.
	// +kubebuilder:validation:MaxItems=256
	// +listType=set
	// +optional
	ExcludedCIDRs []CIDR `json:"excludedCIDRs,omitempty"`

	// gateway is the address of the router in the network of this pool, which is that of
	// networkPrefixLength around it: inside or outside of the pool. It is never handed out,
	// and counts as allocated if it is inside. With it, the network and the broadcast
	// address of an IPv4 network, and the subnet-router anycast address of an IPv6 network,
	// are withheld, too, if they are in the pool. Mutable; blocks that are allocated
	// already stay.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip.isCanonical(self)",message="invalid gateway: write an address such as 192.0.2.1 or 2001:db8::1",messageExpression="isIP(self) ? 'invalid gateway: write %s'.format([string(ip(self))]) : 'invalid gateway: write an address such as 192.0.2.1 or 2001:db8::1'"
	// +optional
	Gateway string `json:"gateway,omitempty"`

	// networkPrefixLength is the prefix length of the network that the addresses of this
	// pool are in, for the configuration of interfaces. Left out, it is that of the pool.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=128
	// +optional
	NetworkPrefixLength int32 `json:"networkPrefixLength,omitempty"`

	// releaseCooldown is how long a freed block of this pool is not allocated again,
	// except to a claim of the same workspace, namespace and name. The longer one of
	// pool and class counts. At most 24h. Left out, blocks are free at once.
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(([0-9]{1,6})(h|m|s|ms))+$') || duration(self) <= duration('24h')",message="spec.releaseCooldown must not exceed 24h"
	// +optional
	ReleaseCooldown Duration `json:"releaseCooldown,omitempty"`

	// maxRetentionLease bounds how long a retained allocation keeps a block of this pool,
	// whatever its class says. Left out, there is no bound.
	// +optional
	MaxRetentionLease Duration `json:"maxRetentionLease,omitempty"`
}

// IPPool is address space to allocate from: a root pool with a CIDR of its own,
// a child pool whose block is carved from a parent, or a pool by class, whose block is carved from a pool of that class.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=ippools,scope=Cluster,shortName=ippool,categories=ipam
// +kubebuilder:printcolumn:name="CIDR",type=string,JSONPath=`.status.allocatedCIDR`
// +kubebuilder:printcolumn:name="Family",type=string,JSONPath=`.status.ipFamily`
// +kubebuilder:printcolumn:name="Classes",type=string,JSONPath=`.status.classes`
// +kubebuilder:printcolumn:name="Util",type=string,JSONPath=`.status.utilization`
// +kubebuilder:printcolumn:name="Largest-Free",type=integer,JSONPath=`.status.largestFreePrefix`
// +kubebuilder:printcolumn:name="Visibility",type=string,JSONPath=`.spec.visibility`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Parent",type=string,priority=1,JSONPath=`.spec.parentPoolRef.name`
// +kubebuilder:printcolumn:name="Provisioned-By",type=string,priority=1,JSONPath=`.spec.classRef.name`
// +kubebuilder:printcolumn:name="Available",type=string,priority=1,JSONPath=`.status.capacity.available`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Allocated")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Allocated")].message`
// +kubebuilder:validation:XValidation:rule="!has(self.spec.parentPoolRef) || has(self.spec.parentPoolRef.projectRef) || self.spec.parentPoolRef.name != self.metadata.name",fieldPath=".spec.parentPoolRef",message="spec.parentPoolRef names this pool: a pool may not be its own parent"
// +kubebuilder:validation:XValidation:rule="(has(self.spec.addressDomain) ? has(oldSelf.spec.addressDomain) && self.spec.addressDomain == oldSelf.spec.addressDomain : !has(oldSelf.spec.addressDomain)) || !has(oldSelf.status) || !has(oldSelf.status.conditions) || !oldSelf.status.conditions.exists(c, c.type == 'InUse' && c.status == 'True')",fieldPath=".spec.addressDomain",message="spec.addressDomain is immutable while the pool is in use: release its blocks first"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.slices) || has(self.spec.slices) && self.spec.slices.prefixLength == oldSelf.spec.slices.prefixLength || !has(oldSelf.status) || !has(oldSelf.status.conditions) || !oldSelf.status.conditions.exists(c, c.type == 'InUse' && c.status == 'True')",fieldPath=".spec.slices",message="spec.slices.prefixLength is immutable while the pool is in use: release its slices first"
type IPPool struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the address space, and the rules for claiming from it.
	// +required
	Spec IPPoolSpec `json:"spec"`

	// status is the block of the pool and how much of it is left. Written by the
	// system.
	// +kubebuilder:default={}
	// +optional
	Status IPPoolStatus `json:"status,omitzero"`
}

// IPPoolList is a list of pools.
//
// +kubebuilder:object:root=true
type IPPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the pools.
	Items []IPPool `json:"items"`
}
