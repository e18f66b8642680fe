package gen

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// ClassOption is an option of Class.
type ClassOption interface {
	class(*ipamv1alpha1.IPClass)
}

// PoolOption is an option of Pool.
type PoolOption interface {
	pool(*ipamv1alpha1.IPPool)
}

// ClaimOption is an option of Claim.
type ClaimOption interface {
	claim(*ipamv1alpha1.IPClaim)
}

// AllocationOption is an option of Allocation.
type AllocationOption interface {
	allocation(*ipamv1alpha1.IPAllocation)
}

// MetaOption is an option of every kind.
type MetaOption func(*metav1.ObjectMeta)

func (o MetaOption) class(class *ipamv1alpha1.IPClass)                { o(&class.ObjectMeta) }
func (o MetaOption) pool(pool *ipamv1alpha1.IPPool)                   { o(&pool.ObjectMeta) }
func (o MetaOption) claim(claim *ipamv1alpha1.IPClaim)                { o(&claim.ObjectMeta) }
func (o MetaOption) allocation(allocation *ipamv1alpha1.IPAllocation) { o(&allocation.ObjectMeta) }

type classOption func(*ipamv1alpha1.IPClassSpec)

func (o classOption) class(class *ipamv1alpha1.IPClass) { o(&class.Spec) }

type poolOption func(*ipamv1alpha1.IPPoolSpec)

func (o poolOption) pool(pool *ipamv1alpha1.IPPool) { o(&pool.Spec) }

type claimOption func(*ipamv1alpha1.IPClaimSpec)

func (o claimOption) claim(claim *ipamv1alpha1.IPClaim) { o(&claim.Spec) }

type allocationOption func(*ipamv1alpha1.IPAllocation)

func (o allocationOption) allocation(allocation *ipamv1alpha1.IPAllocation) { o(allocation) }

// Family is the address family of a class, pool, claim or allocation.
type Family ipamv1alpha1.IPFamily

func (f Family) class(class *ipamv1alpha1.IPClass) { class.Spec.IPFamily = ipamv1alpha1.IPFamily(f) }
func (f Family) pool(pool *ipamv1alpha1.IPPool)    { pool.Spec.IPFamily = ipamv1alpha1.IPFamily(f) }
func (f Family) claim(claim *ipamv1alpha1.IPClaim) { claim.Spec.IPFamily = ipamv1alpha1.IPFamily(f) }
func (f Family) allocation(allocation *ipamv1alpha1.IPAllocation) {
	allocation.Spec.IPFamily = ipamv1alpha1.IPFamily(f)
}

// Cooldown is the release cooldown of a class or pool.
type Cooldown ipamv1alpha1.Duration

func (c Cooldown) class(class *ipamv1alpha1.IPClass) {
	class.Spec.ReleaseCooldown = ipamv1alpha1.Duration(c)
}
func (c Cooldown) pool(pool *ipamv1alpha1.IPPool) {
	pool.Spec.ReleaseCooldown = ipamv1alpha1.Duration(c)
}

// Reclaim is the reclaim policy of a class, claim or allocation.
type Reclaim ipamv1alpha1.ReclaimPolicy

func (r Reclaim) class(class *ipamv1alpha1.IPClass) {
	class.Spec.ReclaimPolicy = ipamv1alpha1.ReclaimPolicy(r)
}

func (r Reclaim) claim(claim *ipamv1alpha1.IPClaim) {
	claim.Spec.ReclaimPolicy = ipamv1alpha1.ReclaimPolicy(r)
}

func (r Reclaim) allocation(allocation *ipamv1alpha1.IPAllocation) {
	allocation.Spec.ReclaimPolicy = ipamv1alpha1.ReclaimPolicy(r)
}

// Strategy is how a class or pool chooses blocks.
type Strategy ipamv1alpha1.Strategy

func (s Strategy) class(class *ipamv1alpha1.IPClass) { class.Spec.Strategy = ipamv1alpha1.Strategy(s) }
func (s Strategy) pool(pool *ipamv1alpha1.IPPool) {
	pool.Spec.Allocation.Strategy = ipamv1alpha1.Strategy(s)
}

// Unmet is the unmetPolicy of a class or claim.
type Unmet ipamv1alpha1.UnmetPolicy

func (o Unmet) class(class *ipamv1alpha1.IPClass) {
	class.Spec.UnmetPolicy = ipamv1alpha1.UnmetPolicy(o)
}

func (o Unmet) claim(claim *ipamv1alpha1.IPClaim) {
	claim.Spec.UnmetPolicy = ipamv1alpha1.UnmetPolicy(o)
}

// OnRetained sets retainedPolicy.
type OnRetained ipamv1alpha1.RetainedPolicy

func (o OnRetained) class(class *ipamv1alpha1.IPClass) {
	class.Spec.RetainedPolicy = ipamv1alpha1.RetainedPolicy(o)
}

func (o OnRetained) claim(claim *ipamv1alpha1.IPClaim) {
	claim.Spec.RetainedPolicy = ipamv1alpha1.RetainedPolicy(o)
}

// Lease sets retentionLease of a class, and maxRetentionLease of a pool.
type Lease ipamv1alpha1.Duration

func (l Lease) class(class *ipamv1alpha1.IPClass) {
	class.Spec.RetentionLease = ipamv1alpha1.Duration(l)
}
func (l Lease) pool(pool *ipamv1alpha1.IPPool) {
	pool.Spec.MaxRetentionLease = ipamv1alpha1.Duration(l)
}

// Visible is the visibility of a class or pool.
type Visible ipamv1alpha1.Visibility

func (v Visible) class(class *ipamv1alpha1.IPClass) {
	class.Spec.Visibility = ipamv1alpha1.Visibility(v)
}
func (v Visible) pool(pool *ipamv1alpha1.IPPool) { pool.Spec.Visibility = ipamv1alpha1.Visibility(v) }

// Consumers are the workspaces that a class or pool admits.
type Consumers []ipamv1alpha1.Consumer

func (c Consumers) class(class *ipamv1alpha1.IPClass) { class.Spec.Consumers = c }
func (c Consumers) pool(pool *ipamv1alpha1.IPPool)    { pool.Spec.Consumers = c }

// MaxPerConsumer is the most addresses that a workspace may hold by a class or of a pool.
type MaxPerConsumer ipamv1alpha1.AddressCount

func (m MaxPerConsumer) class(class *ipamv1alpha1.IPClass) {
	class.Spec.MaxPerConsumer = ipamv1alpha1.AddressCount(m)
}

func (m MaxPerConsumer) pool(pool *ipamv1alpha1.IPPool) {
	pool.Spec.MaxPerConsumer = ipamv1alpha1.AddressCount(m)
}

// Lengths bounds what a class or pool gives, both ends included.
type Lengths struct{ Min, Max int32 }

func (l Lengths) class(class *ipamv1alpha1.IPClass) {
	class.Spec.AllowedPrefixLengths = &ipamv1alpha1.PrefixLengthRange{Min: l.Min, Max: l.Max}
}

func (l Lengths) pool(pool *ipamv1alpha1.IPPool) {
	pool.Spec.Allocation.MinPrefixLength, pool.Spec.Allocation.MaxPrefixLength = l.Min, l.Max
}

// DefaultLength is the length of claims that ask for none.
func DefaultLength(length int32) ClassOption {
	return classOption(func(spec *ipamv1alpha1.IPClassSpec) { spec.DefaultPrefixLength = length })
}

// Provisioner replaces the native provisioner of a class.
func Provisioner(name string) ClassOption {
	return classOption(func(spec *ipamv1alpha1.IPClassSpec) { spec.Provisioner = name })
}

// Default makes a class the default of its family.
func Default() MetaOption {
	return func(meta *metav1.ObjectMeta) {
		metav1.SetMetaDataAnnotation(meta, ipamv1alpha1.AnnotationDefaultClass, "true")
	}
}

// CIDR is the address space of a root pool.
func CIDR(cidr ipamv1alpha1.CIDR) PoolOption {
	return poolOption(func(spec *ipamv1alpha1.IPPoolSpec) { spec.CIDR = cidr })
}

// ChildOf makes a pool a child: a block of that length carved from the parent.
func ChildOf(parent string, length int32) PoolOption {
	return poolOption(func(spec *ipamv1alpha1.IPPoolSpec) {
		spec.CIDR = ""
		spec.ParentPoolRef = &ipamv1alpha1.PoolRef{Name: parent}
		spec.PrefixLength = length
	})
}

// ChildAt makes a pool a child of a parent in the same workspace, with exactly this block.
func ChildAt(parent, block string) PoolOption {
	return poolOption(func(spec *ipamv1alpha1.IPPoolSpec) {
		spec.CIDR, spec.Address = "", ipamv1alpha1.CIDR(block)
		spec.ParentPoolRef = &ipamv1alpha1.PoolRef{Name: parent}
	})
}

// CarvedBy makes a pool that is carved by a class. With length 0, it has the default length of the class.
func CarvedBy(class string, length int32) PoolOption {
	return poolOption(func(spec *ipamv1alpha1.IPPoolSpec) {
		spec.CIDR, spec.ParentClassName, spec.PrefixLength = "", class, length
	})
}

// CarvedByAt makes a pool that is carved by a class, with exactly this block.
func CarvedByAt(class, block string) PoolOption {
	return poolOption(func(spec *ipamv1alpha1.IPPoolSpec) {
		spec.CIDR, spec.ParentClassName, spec.Address = "", class, ipamv1alpha1.CIDR(block)
	})
}

// Backs names the classes that a pool serves.
func Backs(classes ...string) PoolOption {
	return poolOption(func(spec *ipamv1alpha1.IPPoolSpec) { spec.ClassNames = classes })
}

// Domain puts a root pool in an address domain.
func Domain(name string) PoolOption {
	return poolOption(func(spec *ipamv1alpha1.IPPoolSpec) { spec.AddressDomain = name })
}

// Slices gives each admitted workspace a block of that length.
func Slices(length int32) PoolOption {
	return poolOption(func(spec *ipamv1alpha1.IPPoolSpec) {
		spec.Slices = &ipamv1alpha1.PoolSlices{PrefixLength: length}
	})
}

// MaxSlices bounds how many slices a pool gives. It comes after Slices.
func MaxSlices(most int32) PoolOption {
	return poolOption(func(spec *ipamv1alpha1.IPPoolSpec) { spec.Slices.MaxSlices = most })
}

// Gateway sets the gateway of a pool, and the length of its network unless that is 0.
func Gateway(address string, networkLength int32) PoolOption {
	return poolOption(func(spec *ipamv1alpha1.IPPoolSpec) { spec.Gateway, spec.NetworkPrefixLength = address, networkLength })
}

// Excludes are blocks that a pool never hands out.
func Excludes(cidrs ...ipamv1alpha1.CIDR) PoolOption {
	return poolOption(func(spec *ipamv1alpha1.IPPoolSpec) { spec.ExcludedCIDRs = cidrs })
}

// OfClass makes a claim allocate by that class.
func OfClass(name string) ClaimOption {
	return claimOption(func(spec *ipamv1alpha1.IPClaimSpec) { spec.ClassName = name })
}

// FromPool makes a claim allocate from that pool of its own workspace.
func FromPool(name string) ClaimOption {
	return claimOption(func(spec *ipamv1alpha1.IPClaimSpec) { spec.PoolRef = &ipamv1alpha1.PoolRef{Name: name} })
}

// FromPoolIn makes a claim allocate from a pool of another workspace, named by its path.
func FromPoolIn(workspace, name string) ClaimOption {
	return claimOption(func(spec *ipamv1alpha1.IPClaimSpec) {
		spec.PoolRef = &ipamv1alpha1.PoolRef{Name: name, ProjectRef: &ipamv1alpha1.ProjectRef{Name: workspace}}
	})
}

// Selecting makes a claim allocate from a pool that has that label.
func Selecting(key, value string) ClaimOption {
	return claimOption(func(spec *ipamv1alpha1.IPClaimSpec) {
		spec.PoolSelector = &ipamv1alpha1.PoolSelector{MatchLabels: map[string]string{key: value}}
	})
}

// SelectingIn makes a claim allocate from a pool with that label, in another workspace, named by its path.
func SelectingIn(workspace, key, value string) ClaimOption {
	return claimOption(func(spec *ipamv1alpha1.IPClaimSpec) {
		spec.PoolSelector = &ipamv1alpha1.PoolSelector{
			MatchLabels: map[string]string{key: value}, ProjectRef: &ipamv1alpha1.ProjectRef{Name: workspace},
		}
	})
}

// Length is the prefix length that a claim asks for.
func Length(length int32) ClaimOption {
	return claimOption(func(spec *ipamv1alpha1.IPClaimSpec) { spec.PrefixLength = length })
}

// Address is the only address or block that a claim accepts.
func Address(address string) ClaimOption {
	return claimOption(func(spec *ipamv1alpha1.IPClaimSpec) { spec.Address = address })
}

// OwnedBy says which object uses the address.
func OwnedBy(owner ipamv1alpha1.OwnerRef) ClaimOption {
	return claimOption(func(spec *ipamv1alpha1.IPClaimSpec) { spec.OwnerRef = &owner })
}

// Retained makes an allocation that has outlived its claim.
func Retained() AllocationOption {
	return allocationOption(func(allocation *ipamv1alpha1.IPAllocation) {
		allocation.Spec.ClaimRef = nil
		allocation.Spec.ReclaimPolicy = ipamv1alpha1.ReclaimRetain
	})
}

// ByClass records the class by which an allocation was given.
func ByClass(name string) AllocationOption {
	return allocationOption(func(allocation *ipamv1alpha1.IPAllocation) { allocation.Spec.ClassName = name })
}
