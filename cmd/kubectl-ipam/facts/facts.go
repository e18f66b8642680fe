// Package facts has short texts about claims, pools, classes and allocations. Tables, sheets and messages share them.
package facts

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/internal/plural"
)

// Kind returns the word for the kind of an object.
func Kind(object client.Object) string {
	switch object.(type) {
	case *ipamv1alpha1.IPPool:
		return "pool"
	case *ipamv1alpha1.IPClass:
		return "class"
	case *ipamv1alpha1.IPAllocation:
		return "allocation"
	default:
		return "claim"
	}
}

// Args returns the arguments by which a command finds an object, whatever the current namespace is.
func Args(object client.Object) string { return ArgsFor(client.ObjectKeyFromObject(object)) }

// ArgsFor returns Args for the key of an object.
func ArgsFor(key client.ObjectKey) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Name + " -n " + key.Namespace
}

// Name returns the name of an object, with its namespace if it has one.
func Name(object client.Object) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}

// Class returns the class that a claim uses, or else the class that it asks for.
func Class(c *ipamv1alpha1.IPClaim) string {
	return cmp.Or(c.Status.ClassName, c.Spec.ClassName)
}

// Pool returns the pool that the block of a claim is from, or else the pool that the claim asks for.
func Pool(c *ipamv1alpha1.IPClaim) ipamv1alpha1.PoolRef {
	return *cmp.Or(c.Status.PoolRef, c.Spec.PoolRef, &ipamv1alpha1.PoolRef{})
}

// Workspace returns the workspace that a reference names; empty for the current one.
func Workspace(ref ipamv1alpha1.PoolRef) string {
	if ref.ProjectRef == nil {
		return ""
	}
	return ref.ProjectRef.Name
}

// Requested returns the block that a claim asks for, or else the default of its class.
func Requested(c *ipamv1alpha1.IPClaim) string {
	return cmp.Or(c.Status.Requested, ipamv1alpha1.RequestedColumn(c.Spec))
}

// Reason returns the reason of the condition Allocated; empty without the condition.
func Reason(conditions []metav1.Condition) string {
	if found := meta.FindStatusCondition(conditions, ipamv1alpha1.ConditionAllocated); found != nil {
		return found.Reason
	}
	return ""
}

// Unready returns the reason why a pool has no CIDR, or has one and gives nothing out; empty if it gives blocks out, or
// has no answer.
func Unready(conditions []metav1.Condition) string {
	for _, kind := range []string{ipamv1alpha1.ConditionAllocated, ipamv1alpha1.ConditionReady} {
		if found := meta.FindStatusCondition(conditions, kind); found != nil && found.Status != metav1.ConditionTrue {
			return found.Reason
		}
	}
	return ""
}

// Message returns the message of the condition of this type; empty without the condition.
func Message(kind string, conditions []metav1.Condition) string {
	if found := meta.FindStatusCondition(conditions, kind); found != nil {
		return found.Message
	}
	return ""
}

// Age says how old an object is; empty if its time is not set.
func Age(since metav1.Time, now time.Time) string {
	if since.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(since.Time))
}

// Held says that an object is deleted, and which finalizers hold it, apart from our own finalizer of pools; empty if it
// is not deleted.
func Held(object client.Object, now time.Time) string {
	since := object.GetDeletionTimestamp()
	if since.IsZero() {
		return ""
	}
	by := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(name string) bool {
		return name == ipamv1alpha1.FinalizerPool
	})
	if len(by) == 0 {
		return string(ipamv1alpha1.ClaimReleasing)
	}
	word := "finalizer "
	if len(by) > 1 {
		word = "finalizers "
	}
	return string(ipamv1alpha1.ClaimReleasing) + ", held by " + word + strings.Join(by, ", ") + " for " +
		minutes(now.Sub(since.Time))
}

// minutes writes a duration. From one minute up to two hours it writes minutes, such as 5 min.
func minutes(d time.Duration) string {
	if d < time.Minute || d >= 2*time.Hour {
		return duration.HumanDuration(d)
	}
	return fmt.Sprintf("%d min", int(d.Minutes()))
}

// Scope lists the objects of a scope, such as location=ams, network=vpc-1.
func Scope(scope ipamv1alpha1.Scope) string {
	return strings.ReplaceAll(ipamv1alpha1.ScopeColumn(scope), ",", ", ")
}

// Inside reports whether a scope names all objects of the other scope.
func Inside(scope, other ipamv1alpha1.Scope) bool {
	for role, object := range other {
		if scope[role] != object {
			return false
		}
	}
	return true
}

// Target says that a claim holds a range; empty if it holds a block.
func Target(c *ipamv1alpha1.IPClaim) string {
	if c.Spec.Target != ipamv1alpha1.TargetScopeRange {
		return ""
	}
	return "the range of its class for this scope"
}

// CIDR returns the block that a pool has, or else the block that it asks for.
func CIDR(p *ipamv1alpha1.IPPool) string {
	return cmp.Or(p.Status.AllocatedCIDR, string(p.Spec.CIDR), string(p.Spec.Address))
}

// Parent names the pool from which the block of a pool is carved; empty without one.
func Parent(p *ipamv1alpha1.IPPool) string {
	parent := p.Parent()
	if parent == nil {
		return ""
	}
	return space.In(parent.Name, Workspace(*parent))
}

// IsDefault reports whether a class is the default of its family.
func IsDefault(c *ipamv1alpha1.IPClass) bool {
	return c.Annotations[ipamv1alpha1.AnnotationDefaultClass] == "true"
}

// ClassLengths returns the lengths that a class allows.
func ClassLengths(c *ipamv1alpha1.IPClass) string {
	if c.Spec.AllowedPrefixLengths == nil {
		return "any length"
	}
	return Lengths(c.Spec.AllowedPrefixLengths.Min, c.Spec.AllowedPrefixLengths.Max)
}

// Slash writes a prefix length; empty for none.
func Slash(length int32) string {
	if length == 0 {
		return ""
	}
	return fmt.Sprintf("/%d", length)
}

// LargestFree returns the largest block that a pool can still give.
func LargestFree(pool *ipamv1alpha1.IPPool) string {
	if pool.Status.LargestFreePrefix == nil {
		return ""
	}
	return fmt.Sprintf("/%d", *pool.Status.LargestFreePrefix)
}

// Utilisation returns how much of a pool is taken, in percent.
func Utilisation(pool *ipamv1alpha1.IPPool) string {
	if pool.Status.UtilizationPercent == nil {
		return ""
	}
	return ipamv1alpha1.UtilizationColumn(*pool.Status.UtilizationPercent)
}

// Lengths returns the lengths that a range allows, in words.
func Lengths(least, most int32) string {
	switch {
	case least == 0 && most == 0:
		return ""
	case least == most:
		return fmt.Sprintf("/%d only", least)
	case most == 0:
		return fmt.Sprintf("/%d and longer", least)
	case least == 0:
		return fmt.Sprintf("up to /%d", most)
	default:
		return fmt.Sprintf("/%d to /%d", least, most)
	}
}

// Limit says how many addresses a workspace may hold; empty if there is no limit.
func Limit(count ipamv1alpha1.AddressCount) string {
	if count == "" {
		return ""
	}
	return plural.Of(string(count), "address", "addresses") + " for each workspace"
}

// Expiry returns when a retained allocation is released; empty if only a user releases it.
func Expiry(a *ipamv1alpha1.IPAllocation) string {
	if a.Status.Expires == nil {
		return ""
	}
	return a.Status.Expires.UTC().Format(time.RFC3339)
}

// ParseBlock reads an address or a CIDR.
func ParseBlock(text string) (netip.Prefix, error) {
	if block, err := netip.ParsePrefix(text); err == nil {
		return unmapped(block).Masked(), nil
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, exit.Usagef("%q is no address; write one such as 192.0.2.7, or a block such as 192.0.2.0/28",
			text)
	}
	return unmapped(netip.PrefixFrom(ip, ip.BitLen())), nil
}

// unmapped returns an IPv4 block that is written in IPv6 form, such as ::ffff:10.8.1.7, in IPv4 form.
func unmapped(block netip.Prefix) netip.Prefix {
	const mapped = 96 // bits before the IPv4 address
	if !block.Addr().Is4In6() || block.Bits() < mapped {
		return block
	}
	return netip.PrefixFrom(block.Addr().Unmap(), block.Bits()-mapped)
}
