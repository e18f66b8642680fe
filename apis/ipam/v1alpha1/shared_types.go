package v1alpha1

import (
	"math/big"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// IPFamily is an address family.
// +kubebuilder:validation:Enum=IPv4;IPv6
type IPFamily string

// The address families.
const (
	IPv4 IPFamily = "IPv4"
	IPv6 IPFamily = "IPv6"
)

// Strategy says how a pool, or a block inside a pool, is chosen.
// +kubebuilder:validation:Enum=FirstFit;BestFit;LeastUtilized
type Strategy string

const (
	// FirstFit takes pools by name and the lowest free block.
	FirstFit Strategy = "FirstFit"
	// BestFit takes the smallest free block that still fits.
	BestFit Strategy = "BestFit"
	// LeastUtilized takes the least used pool first.
	LeastUtilized Strategy = "LeastUtilized"
)

// ReclaimPolicy says what happens to a block when its claim is deleted.
// +kubebuilder:validation:Enum=Delete;Retain
type ReclaimPolicy string

const (
	// ReclaimDelete gives the block back to its pool.
	ReclaimDelete ReclaimPolicy = "Delete"
	// ReclaimRetain keeps the block allocated until its IPAllocation is deleted.
	ReclaimRetain ReclaimPolicy = "Retain"
)

// UnmetPolicy says what CREATE does with a claim that cannot be met now.
// +kubebuilder:validation:Enum=Wait;Refuse
type UnmetPolicy string

const (
	// UnmetWait stores the claim, which binds when it can.
	UnmetWait UnmetPolicy = "Wait"
	// UnmetRefuse fails the CREATE with the reason.
	UnmetRefuse UnmetPolicy = "Refuse"
)

// RetainedPolicy says what happens to a claim if an allocation of its name is retained.
// +kubebuilder:validation:Enum=Wait;Reuse
type RetainedPolicy string

const (
	// RetainedWait makes the claim wait until the allocation is deleted.
	RetainedWait RetainedPolicy = "Wait"
	// RetainedReuse gives the claim the block of the allocation, if class and length agree.
	RetainedReuse RetainedPolicy = "Reuse"
)

// Duration is a length of time in whole units, such as 30s, 15m or 720h. Empty means none.
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^(([0-9]{1,6})(h|m|s|ms))*$')",message="invalid duration: write a number with a unit, such as 30s, 15m or 24h"
type Duration string

// longest is the longest duration that counts: its end is still a time.
const longest = 250 * 365 * 24 * time.Hour

// durations are those that the schema admits. The sum of several may be longer than any time.
var durations = regexp.MustCompile(`^(([0-9]{1,6})(h|m|s|ms))+$`)

// Value is the duration, at most 250 years of 365 days; 0 if it is empty. What is no duration,
// and so never admitted, is 0.
func (d Duration) Value() time.Duration {
	v, err := time.ParseDuration(string(d))
	switch {
	case err == nil:
		return min(v, longest)
	case durations.MatchString(string(d)):
		return longest
	default:
		return 0
	}
}

// Visibility says which workspaces may use a class or a pool.
// +kubebuilder:validation:Enum=consumer;platform;shared
type Visibility string

const (
	// VisibilityConsumer admits the workspace of the object and no other.
	VisibilityConsumer Visibility = "consumer"
	// VisibilityPlatform admits every workspace, unless consumers narrows it.
	VisibilityPlatform Visibility = "platform"
	// VisibilityShared admits the workspaces that consumers lists.
	VisibilityShared Visibility = "shared"
)

// CIDR is a block of addresses in canonical network form, such as 10.0.0.0/8 or 2001:db8::/32.
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="isCIDR(self) && string(cidr(self).masked()) == self",message="invalid CIDR: write a network such as 10.0.0.0/8 or 2001:db8::/32",messageExpression="isCIDR(self) ? 'invalid CIDR: %s is not in network form; write %s'.format([self, string(cidr(self).masked())]) : 'invalid CIDR: write a network such as 10.0.0.0/8 or 2001:db8::/32'"
type CIDR string

// Consumer names workspaces by path: root:acme:web is that workspace,
// root:acme:* is every workspace below root:acme, but not root:acme itself.
// Without a colon it is the ID of a logical cluster, which cannot be forged.
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(:[*])?$')",message="invalid workspace: write a path such as root:acme:web, or root:acme:* for all workspaces below root:acme"
type Consumer string

// AddressCount is a number of addresses above zero, in decimal. Empty means no limit.
// +kubebuilder:validation:MaxLength=39
// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9][0-9]*)?$')",message="invalid count: write a whole number of addresses above 0, such as \"256\", or leave it out for no limit"
type AddressCount string

// Int is the count as a number; nil if it is empty. What is no count, and so never
// admitted, is 0.
func (c AddressCount) Int() *big.Int {
	if c == "" {
		return nil
	}
	n, ok := new(big.Int).SetString(string(c), 10)
	if !ok {
		return new(big.Int)
	}
	return n
}

// ProjectRef names a workspace.
type ProjectRef struct {
	// name is the path of the workspace, such as root:acme:web.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="invalid workspace: write a path such as root:acme:web"
	// +required
	Name string `json:"name"`
}

// PoolRef names an IPPool.
type PoolRef struct {
	// name of the IPPool.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name"`

	// projectRef names the workspace of the pool. Left out, the pool is in the
	// workspace of the object that refers to it.
	// +optional
	ProjectRef *ProjectRef `json:"projectRef,omitempty"`
}

// LocalRef names an object of the same workspace and namespace.
type LocalRef struct {
	// name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name"`
}

// OwnerRef names the object that uses an address. It is information: no address is freed
// because of it.
type OwnerRef struct {
	// apiGroup of the object. Empty for the core group.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`

	// kind of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	Kind string `json:"kind"`

	// namespace of the object. Empty for a cluster-scoped object.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name"`

	// uid of the object. When given, an object of the same name with another
	// UID is another object.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=256
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// PrefixLengthRange bounds a prefix length, both ends included.
// +kubebuilder:validation:XValidation:rule="self.min <= self.max",message="min must not exceed max"
type PrefixLengthRange struct {
	// min is the shortest prefix length, that is the largest block.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=128
	// +required
	Min int32 `json:"min"`

	// max is the longest prefix length, that is the smallest block.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=128
	// +required
	Max int32 `json:"max"`
}

// PoolSelector selects pools by their labels.
type PoolSelector struct {
	// matchLabels are labels that the pool must carry.
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 317 && size(self[key]) <= 63)",message="keys of matchLabels must not exceed 317 characters, and values 63"
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`

	// matchExpressions are label requirements that the pool must meet, all of them.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	MatchExpressions []LabelRequirement `json:"matchExpressions,omitempty"`

	// projectRef names the workspace of the pools. Left out, they are in the
	// workspace of the claim.
	// +optional
	ProjectRef *ProjectRef `json:"projectRef,omitempty"`
}

// LabelRequirement is a requirement on one label, as in a metav1.LabelSelector, with the
// bounds that labels have.
type LabelRequirement struct {
	// key of the label.
	// +kubebuilder:validation:MaxLength=317
	// +required
	Key string `json:"key"`

	// operator says how the label relates to values: In and NotIn compare it with
	// them, Exists and DoesNotExist have none.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	// +required
	Operator metav1.LabelSelectorOperator `json:"operator"`

	// values of the label, with the operators In and NotIn.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=atomic
	// +optional
	Values []string `json:"values,omitempty"`
}

// LabelSelector returns the selector without its workspace, sharing its maps and slices.
func (s *PoolSelector) LabelSelector() *metav1.LabelSelector {
	selector := &metav1.LabelSelector{MatchLabels: s.MatchLabels}
	for _, r := range s.MatchExpressions {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement(r))
	}
	return selector
}

// PoolReservations keeps blocks at the two edges of a pool from being handed out.
// +kubebuilder:validation:XValidation:rule="self.?leading.orValue(0) + self.?trailing.orValue(0) == 0 || has(self.unitPrefixLength)",message="unitPrefixLength is required: give the prefix length of one reserved block, such as 32 for a single IPv4 address"
type PoolReservations struct {
	// leading is the number of blocks reserved at the start of the pool.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Leading int32 `json:"leading,omitempty"`

	// trailing is the number of blocks reserved at the end of the pool.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Trailing int32 `json:"trailing,omitempty"`

	// unitPrefixLength is the prefix length of one reserved block.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=128
	// +optional
	UnitPrefixLength int32 `json:"unitPrefixLength,omitempty"`
}
