package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClassPhase is the state of a class in one word.
// +kubebuilder:validation:Enum=Pending;Ready;Error
type ClassPhase string

// The phases of a class.
const (
	ClassPending ClassPhase = "Pending"
	ClassReady   ClassPhase = "Ready"
	ClassError   ClassPhase = "Error"
)

// InternalRouting says how an address of a class is routed inside of the platform.
// +kubebuilder:validation:Enum=None;Host
type InternalRouting string

const (
	// InternalNone routes no address by itself.
	InternalNone InternalRouting = "None"
	// InternalHost has a route for each address.
	InternalHost InternalRouting = "Host"
)

// ExternalRouting says how an address of a class is announced to the outside.
// +kubebuilder:validation:Enum=None;Aggregate
type ExternalRouting string

const (
	// ExternalNone announces nothing.
	ExternalNone ExternalRouting = "None"
	// ExternalAggregate announces the pools that the addresses are from.
	ExternalAggregate ExternalRouting = "Aggregate"
)

// Provisioning says when the pools of a class with poolPer are made.
// +kubebuilder:validation:Enum=OnDemand;Held
type Provisioning string

const (
	// ProvisionOnDemand makes a pool for the first claim that needs it. It is the default.
	ProvisionOnDemand Provisioning = "OnDemand"
	// ProvisionHeld makes a pool for a ScopeRange claim alone, which holds it.
	ProvisionHeld Provisioning = "Held"
)

// ClassNumber has a class give numbers, such as VNIs, VLAN IDs, ASNs or ports.
type ClassNumber struct {
	// bits is how many of the last bits of an address are its number: 24 for VNIs, 12 for VLAN IDs.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32
	// +required
	Bits int32 `json:"bits"`
}

// ClassRouting says how the addresses of a class are routed.
type ClassRouting struct {
	// internal is None, or Host for a route to each address.
	// +optional
	Internal InternalRouting `json:"internal,omitempty"`

	// external is None, or Aggregate for an announcement of the pools.
	// +optional
	External ExternalRouting `json:"external,omitempty"`
}

// IPClassSpec says what a class hands out and by which rules.
// +kubebuilder:validation:XValidation:rule="self.ipFamily == oldSelf.ipFamily",fieldPath=".ipFamily",message="spec.ipFamily is immutable: create another class for the other family"
// +kubebuilder:validation:XValidation:rule="self.ipFamily == 'IPv6' || !has(self.allowedPrefixLengths) || self.allowedPrefixLengths.max <= 32",fieldPath=".allowedPrefixLengths",message="spec.allowedPrefixLengths must be within 0 to 32 for IPv4"
// +kubebuilder:validation:XValidation:rule="self.ipFamily == 'IPv6' || !has(self.defaultPrefixLength) || self.defaultPrefixLength <= 32",fieldPath=".defaultPrefixLength",message="spec.defaultPrefixLength must be 1 to 32 for IPv4"
// +kubebuilder:validation:XValidation:rule="!has(self.defaultPrefixLength) || !has(self.allowedPrefixLengths) || (self.allowedPrefixLengths.min <= self.defaultPrefixLength && self.defaultPrefixLength <= self.allowedPrefixLengths.max)",fieldPath=".defaultPrefixLength",message="spec.defaultPrefixLength must be within spec.allowedPrefixLengths",messageExpression="'spec.defaultPrefixLength must be %d to %d, within spec.allowedPrefixLengths'.format([self.allowedPrefixLengths.min, self.allowedPrefixLengths.max])"
// +kubebuilder:validation:XValidation:rule="has(self.parentClassName) && size(self.parentClassName) > 0 ? has(oldSelf.parentClassName) && self.parentClassName == oldSelf.parentClassName : !has(oldSelf.parentClassName) || size(oldSelf.parentClassName) == 0",fieldPath=".parentClassName",message="spec.parentClassName is immutable: create another class"
// +kubebuilder:validation:XValidation:rule="has(self.poolPer) && size(self.poolPer) > 0 ? has(oldSelf.poolPer) && self.poolPer == oldSelf.poolPer : !has(oldSelf.poolPer) || size(oldSelf.poolPer) == 0",fieldPath=".poolPer",message="spec.poolPer is immutable: create another class"
// +kubebuilder:validation:XValidation:rule="has(self.uniqueWithin) && size(self.uniqueWithin) > 0 ? has(oldSelf.uniqueWithin) && self.uniqueWithin == oldSelf.uniqueWithin : !has(oldSelf.uniqueWithin) || size(oldSelf.uniqueWithin) == 0",fieldPath=".uniqueWithin",message="spec.uniqueWithin is immutable: create another class"
// +kubebuilder:validation:XValidation:rule="(has(self.provisioning) && self.provisioning == 'Held') == (has(oldSelf.provisioning) && oldSelf.provisioning == 'Held')",fieldPath=".provisioning",message="spec.provisioning is immutable: create another class"
// +kubebuilder:validation:XValidation:rule="!has(self.provisioning) || has(self.poolPer) && size(self.poolPer) > 0",fieldPath=".provisioning",message="spec.provisioning says when the pools of spec.poolPer are made: give spec.poolPer, or remove spec.provisioning"
// +kubebuilder:validation:XValidation:rule="has(self.number) ? has(oldSelf.number) && self.number == oldSelf.number : !has(oldSelf.number)",fieldPath=".number",message="spec.number is immutable: create another class"
// +kubebuilder:validation:XValidation:rule="!has(self.number) || has(self.allowedPrefixLengths) && self.allowedPrefixLengths.min == (self.ipFamily == 'IPv6' ? 128 : 32) && !(has(self.poolPer) && size(self.poolPer) > 0)",fieldPath=".number",message="spec.number is that of a single address: allow the length 128 alone in spec.allowedPrefixLengths, or 32 for IPv4, and remove spec.poolPer"
// +kubebuilder:validation:XValidation:rule="!has(self.reservations) || has(self.poolPer) && size(self.poolPer) > 0",fieldPath=".reservations",message="spec.reservations is copied to the pools that are made by spec.poolPer: give spec.poolPer, or write the reservations into the pool"
// +kubebuilder:validation:XValidation:rule="self.ipFamily == 'IPv6' || !has(self.reservations) || !has(self.reservations.unitPrefixLength) || self.reservations.unitPrefixLength <= 32",fieldPath=".reservations.unitPrefixLength",message="spec.reservations.unitPrefixLength must be 1 to 32 for IPv4"
// +kubebuilder:validation:XValidation:rule="!has(self.poolPer) || size(self.poolPer) == 0 || has(self.defaultPrefixLength) || has(self.allowedPrefixLengths) && self.allowedPrefixLengths.min == self.allowedPrefixLengths.max && self.allowedPrefixLengths.min > 0",fieldPath=".defaultPrefixLength",message="the pools of spec.poolPer have the default length, and there is none: give spec.defaultPrefixLength, or allow one length alone in spec.allowedPrefixLengths"
// +kubebuilder:validation:XValidation:rule="!has(self.poolPer) || size(self.poolPer) == 0 || !has(self.uniqueWithin) || self.uniqueWithin.all(role, role in self.poolPer)",fieldPath=".uniqueWithin",message="with spec.poolPer, spec.uniqueWithin must be among its roles: add them to spec.poolPer, or remove spec.uniqueWithin"
// +kubebuilder:validation:XValidation:rule="!has(self.reservations) || !has(self.reservations.unitPrefixLength) || self.reservations.?leading.orValue(0) + self.reservations.?trailing.orValue(0) == 0 || self.reservations.unitPrefixLength > (has(self.defaultPrefixLength) ? self.defaultPrefixLength : has(self.allowedPrefixLengths) ? self.allowedPrefixLengths.min : 0)",fieldPath=".reservations.unitPrefixLength",message="spec.reservations.unitPrefixLength must be longer than the pools that spec.poolPer makes, or nothing is left to hand out: give the length of one reserved block"
type IPClassSpec struct {
	// provisioner names the service that serves claims of this class. Claims of
	// a class with any other provisioner than ipam.miloapis.com/native wait.
	// +kubebuilder:default="ipam.miloapis.com/native"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Provisioner string `json:"provisioner,omitempty"`

	// ipFamily is the address family that this class hands out. Immutable.
	// +required
	IPFamily IPFamily `json:"ipFamily"`

	// strategy says how a backing pool is chosen, and the block in it. FirstFit:
	// pools by name, the lowest free block. BestFit: the smallest free block that
	// still fits. LeastUtilized: the least used pool first.
	// +kubebuilder:default=FirstFit
	// +optional
	Strategy Strategy `json:"strategy,omitempty"`

	// allowedPrefixLengths bounds the length that a claim may ask for. Left out,
	// every length of the family is allowed.
	// +optional
	AllowedPrefixLengths *PrefixLengthRange `json:"allowedPrefixLengths,omitempty"`

	// defaultPrefixLength is the length of a claim that asks for none. It must be
	// allowed. Left out, such claims are refused unless just one length is allowed.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=128
	// +optional
	DefaultPrefixLength int32 `json:"defaultPrefixLength,omitempty"`

	// reclaimPolicy says what happens to a block when its claim is deleted, unless
	// the claim says otherwise. Delete frees the block, Retain keeps it allocated.
	// +kubebuilder:default=Delete
	// +optional
	ReclaimPolicy ReclaimPolicy `json:"reclaimPolicy,omitempty"`

	// unmetPolicy says what CREATE does with a claim of this class that cannot be
	// met now, unless the claim says otherwise. Wait stores the claim, which binds
	// when it can. Refuse fails the CREATE with the reason. Left out, it is Refuse with
	// parentClassName, poolPer or uniqueWithin, and the default of the controller, which is
	// Wait, without.
	// +optional
	UnmetPolicy UnmetPolicy `json:"unmetPolicy,omitempty"`

	// releaseCooldown is how long a freed block of this class is not allocated again,
	// except to a claim of the same workspace, namespace and name. The longer one of
	// class and pool counts. At most 24h. Left out, blocks are free at once.
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(([0-9]{1,6})(h|m|s|ms))+$') || duration(self) <= duration('24h')",message="spec.releaseCooldown must not exceed 24h"
	// +optional
	ReleaseCooldown Duration `json:"releaseCooldown,omitempty"`

	// retentionLease is how long a retained allocation of this class keeps its block. Then
	// it is released. Left out, it is kept until it is deleted.
	// +optional
	RetentionLease Duration `json:"retentionLease,omitempty"`

	// retainedPolicy applies if an allocation of a claim's name is retained, unless the
	// claim says otherwise. Wait: the claim waits until that is deleted. Reuse: the claim
	// gets the retained block, if class and length agree. Left out, it is Wait.
	// +optional
	RetainedPolicy RetainedPolicy `json:"retainedPolicy,omitempty"`

	// visibility says which workspaces may use the class. consumer: this workspace only.
	// platform: every workspace, narrowed by consumers. shared: the workspaces
	// that consumers lists.
	// +kubebuilder:default=platform
	// +optional
	Visibility Visibility `json:"visibility,omitempty"`

	// consumers lists the workspaces that may use a shared class, or narrows a
	// platform one: exact paths (root:acme:web) or subtrees (root:acme:*, all
	// below root:acme). Empty means no other workspace on a shared class, and every
	// workspace on a platform one.
	// +kubebuilder:validation:MaxItems=256
	// +listType=set
	// +optional
	Consumers []Consumer `json:"consumers,omitempty"`

	// maxPerConsumer is the number of addresses that one workspace may hold by
	// this class, in decimal. Left out, there is no limit.
	// +optional
	MaxPerConsumer AddressCount `json:"maxPerConsumer,omitempty"`

	// parentClassName names the class from whose pools this class takes its blocks. Left out, they are
	// from pools that name this class in their classNames. Immutable.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	ParentClassName string `json:"parentClassName,omitempty"`

	// poolPer makes pools on demand: one for each combination of the objects that claims name for these
	// roles of their scope. It also has exactly one of two words: with project, each workspace has pools
	// of its own, and with allProjects all workspaces share them. Immutable.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || ('project' in self) != ('allProjects' in self)",message="spec.poolPer must have exactly one of project and allProjects: add project if each workspace is to have pools of its own, or allProjects if all workspaces are to share them"
	// +kubebuilder:validation:XValidation:rule="self.all(role, role.matches('^[A-Za-z]([-_A-Za-z0-9]{0,61}[A-Za-z0-9])?$'))",message="invalid role: write a word of at most 63 letters, digits and hyphens, such as network or location"
	// +listType=set
	// +optional
	PoolPer []string `json:"poolPer,omitempty"`

	// provisioning says when a pool of poolPer is made. OnDemand: by the first claim that needs it. Held: by a claim
	// whose target is ScopeRange alone. Any other claim is refused until such a claim holds the pool. Left out, it is
	// OnDemand. Immutable.
	// +optional
	Provisioning Provisioning `json:"provisioning,omitempty"`

	// uniqueWithin are the roles within whose objects an address is given once: each combination of
	// objects, of each workspace, has an address space of its own, and the same addresses. With poolPer, a
	// pool of the class lies in the address space of its objects, so that each network has the same CIDR:
	// they are among the roles of that, and of the classes below only the last may have them, too. Left
	// out, an address of a pool is given once. Immutable.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!('project' in self) && !('allProjects' in self)",message="project and allProjects are not allowed in spec.uniqueWithin: remove them; spaces are always those of the workspace that claims"
	// +kubebuilder:validation:XValidation:rule="self.all(role, role.matches('^[A-Za-z]([-_A-Za-z0-9]{0,61}[A-Za-z0-9])?$'))",message="invalid role: write a word of at most 63 letters, digits and hyphens, such as network or location"
	// +listType=set
	// +optional
	UniqueWithin []string `json:"uniqueWithin,omitempty"`

	// number shows the last bits of each address as a number, in status.number of claim and allocation. Only for classes
	// that hand out single addresses. Immutable.
	// +optional
	Number *ClassNumber `json:"number,omitempty"`

	// reservations are copied to each pool that is made by poolPer. A change counts for later pools.
	// +optional
	Reservations *PoolReservations `json:"reservations,omitempty"`

	// routing says how the addresses are routed. It is information: the system only stores it.
	// +optional
	Routing *ClassRouting `json:"routing,omitempty"`

	// parameters are handed to the provisioner as they are.
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 256 && size(self[key]) <= 256)",message="keys and values of spec.parameters must not exceed 256 characters"
	// +optional
	Parameters map[string]string `json:"parameters,omitempty"`
}

// IPClassStatus says whether the class can be used.
type IPClassStatus struct {
	// phase is the state in one word; the conditions say why.
	// +optional
	Phase ClassPhase `json:"phase,omitempty"`

	// offeringPools is the number of ready platform pools that back this class.
	// +optional
	OfferingPools int32 `json:"offeringPools"`

	// requiredScopeRoles are the roles that the scope of a claim by this class must have: those of
	// uniqueWithin, and of poolPer of this class and of the classes above it; sorted.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	RequiredScopeRoles []string `json:"requiredScopeRoles,omitempty"`

	// provisionedPools is the number of pools that were made by poolPer, and are still there.
	// +optional
	ProvisionedPools int32 `json:"provisionedPools,omitempty"`

	// lengths is spec.allowedPrefixLengths as kubectl get shows it, such as /24–/28.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Lengths string `json:"lengths,omitempty"`

	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, and Reconciling or Stalled while they hold.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:default={{type: "Ready", status: "Unknown", reason: "Pending", message: "the controller has not answered yet", lastTransitionTime: "1970-01-01T00:00:00Z"}}
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// IPClass is a kind of address space, and the rules for handing it out, as a
// StorageClass is for volumes. Classes live in the platform workspace; tenants
// see those they may use, read-only.
//
// +kubebuilder:validation:XValidation:rule="!has(self.spec.parentClassName) || self.spec.parentClassName != self.metadata.name",fieldPath=".spec.parentClassName",message="spec.parentClassName names this class: a class may not be its own parent; name the class above it, or remove the field"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=ipclasses,scope=Cluster,shortName=ipclass,categories=ipam
// +kubebuilder:printcolumn:name="Family",type=string,JSONPath=`.spec.ipFamily`
// +kubebuilder:printcolumn:name="Strategy",type=string,JSONPath=`.spec.strategy`
// +kubebuilder:printcolumn:name="Lengths",type=string,JSONPath=`.status.lengths`
// +kubebuilder:printcolumn:name="Default",type=integer,JSONPath=`.spec.defaultPrefixLength`
// +kubebuilder:printcolumn:name="Pools",type=integer,JSONPath=`.status.offeringPools`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reclaim",type=string,priority=1,JSONPath=`.spec.reclaimPolicy`
// +kubebuilder:printcolumn:name="Visibility",type=string,priority=1,JSONPath=`.spec.visibility`
// +kubebuilder:printcolumn:name="Parent",type=string,priority=1,JSONPath=`.spec.parentClassName`
// +kubebuilder:printcolumn:name="Provisioned",type=integer,priority=1,JSONPath=`.status.provisionedPools`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type IPClass struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The annotation
	// ipam.miloapis.com/is-default-class: "true" makes this class the default of
	// its family; the oldest such class counts.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says what the class hands out and by which rules.
	// +required
	Spec IPClassSpec `json:"spec"`

	// status says whether the class can be used. Written by the system.
	// +kubebuilder:default={}
	// +optional
	Status IPClassStatus `json:"status,omitzero"`
}

// IPClassList is a list of classes.
//
// +kubebuilder:object:root=true
type IPClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the classes.
	Items []IPClass `json:"items"`
}
