package resolve

import (
	"cmp"
	"slices"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
)

// class finds the class of a claim that does not name a pool. If the class refuses the claim, class returns both the
// class and the refusal.
func (q Query) class(catalog Catalog) (*ipamv1alpha1.IPClass, error) {
	class, err := q.namedOrDefault(catalog)
	if err != nil {
		return nil, err
	}
	if p := class.Spec.Provisioner; p != "" && p != ipamv1alpha1.NativeProvisioner {
		return class, refuse(ipamv1alpha1.ReasonUnknownProvisioner,
			"class %q is provisioned by %q, which is not served here", class.Name, p)
	}
	if f := askedFamily(q.Claim); f != "" && f != class.Spec.IPFamily {
		return class, refuse(ipamv1alpha1.ReasonFamilyMismatch,
			"address family %s does not match class %q, which is %s", f, class.Name, class.Spec.IPFamily)
	}
	return class, nil
}

func (q Query) namedOrDefault(catalog Catalog) (*ipamv1alpha1.IPClass, error) {
	if name := q.Claim.Spec.ClassName; name != "" {
		class, ok := catalog.Class(name)
		if !ok || !q.MayUse(class) {
			return nil, refuse(ipamv1alpha1.ReasonClassNotFound,
				"there is no class %q; name one that exists, or ask the platform to create it", name)
		}
		return class, nil
	}
	class, ok := defaultClass(catalog.DefaultClasses(), q.Claim.Spec.IPFamily)
	if !ok || !q.MayUse(class) {
		return nil, noDefault(q.Claim.Spec.IPFamily)
	}
	return class, nil
}

func noDefault(family ipamv1alpha1.IPFamily) *outcome.Refusal {
	if family != "" {
		family += " "
	}
	return refuse(ipamv1alpha1.ReasonNoDefaultClass,
		"the claim names no class and there is no default %sclass; "+
			"set spec.className in a new claim, or have a default class created", family)
}

// MayUse reports whether a claim of the workspace q.From may name a class.
func (q Query) MayUse(class *ipamv1alpha1.IPClass) bool {
	return sharing{q.Platform, class.Spec.Visibility, class.Spec.Consumers}.admits(q.From)
}

// defaultClass returns the default class of the family. Without a family it returns the only default there is, or else
// the IPv4 default.
func defaultClass(marked []*ipamv1alpha1.IPClass, family ipamv1alpha1.IPFamily) (*ipamv1alpha1.IPClass, bool) {
	v4, ok4 := Default(marked, ipamv1alpha1.IPv4)
	v6, ok6 := Default(marked, ipamv1alpha1.IPv6)
	if family == ipamv1alpha1.IPv6 || family == "" && !ok4 {
		return v6, ok6
	}
	return v4, ok4
}

// Default returns the class that counts as the default of a family: of the classes that are marked as such, the oldest,
// then the first by name.
func Default(marked []*ipamv1alpha1.IPClass, family ipamv1alpha1.IPFamily) (*ipamv1alpha1.IPClass, bool) {
	ofFamily := slices.DeleteFunc(slices.Clone(marked), func(c *ipamv1alpha1.IPClass) bool {
		return c.Spec.IPFamily != family || !IsDefault(c)
	})
	if len(ofFamily) == 0 {
		return nil, false
	}
	return slices.MinFunc(ofFamily, func(a, b *ipamv1alpha1.IPClass) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	}), true
}

// IsDefault reports whether a class is marked as the default of its family.
func IsDefault(class *ipamv1alpha1.IPClass) bool {
	return class.Annotations[ipamv1alpha1.AnnotationDefaultClass] == "true"
}

// Published reports whether every workspace may see the class.
func Published(class *ipamv1alpha1.IPClass) bool {
	return class.Spec.Visibility == ipamv1alpha1.VisibilityPlatform && len(class.Spec.Consumers) == 0
}

// Backs reports whether a platform pool offers addresses of the class.
func Backs(pool *ipamv1alpha1.IPPool, class *ipamv1alpha1.IPClass) bool {
	return slices.Contains(pool.Spec.ClassNames, class.Name) && authored(pool) && Ready(pool) &&
		pool.Status.IPFamily == class.Spec.IPFamily
}

// classLength returns the prefix length that a claim gets by a class, in a pool of the class above. If above is nil,
// the block may be in any pool.
func (q Query) classLength(class, above *ipamv1alpha1.IPClass) (int, error) {
	lengths := classBounds(class)
	if above != nil {
		lengths.min = max(lengths.min, poolLength(above)+1)
	}
	asked, err := askedLength(q.Claim)
	if err != nil {
		return 0, err
	}
	if asked == 0 {
		asked = poolLength(class)
	}
	if asked == 0 {
		return 0, refuse(ipamv1alpha1.ReasonPrefixLengthRejected,
			"class %q has no default prefix length; claim one from %s", class.Name, lengths)
	}
	if !lengths.contain(asked) {
		return 0, refuse(ipamv1alpha1.ReasonPrefixLengthRejected,
			"class %q hands out %s; /%d is outside this range", class.Name, lengths, asked)
	}
	return asked, nil
}

// rangeLength refuses the length that a claim for a range asks for, if the class does not hand it out, or if the blocks
// of a class below would not fit into such a range.
func (q Query) rangeLength(catalog Catalog, class *ipamv1alpha1.IPClass) error {
	asked, err := askedLength(q.Claim)
	if err != nil || asked == 0 {
		return err
	}
	if lengths := classBounds(class); !lengths.contain(asked) {
		return refuse(ipamv1alpha1.ReasonPrefixLengthRejected, "class %q hands out %s; /%d is outside this range",
			class.Name, lengths, asked)
	}
	for _, below := range catalog.Children(class.Name) {
		if q.MayUse(below) && shortest(below) != 0 && shortest(below) <= asked {
			return refuse(ipamv1alpha1.ReasonPrefixLengthRejected,
				"a range of /%d is too small for the blocks of class %q, which are up to /%d: ask for a shorter length",
				asked, below.Name, shortest(below))
		}
	}
	return nil
}

// shortest returns the length of the largest block that a class hands out; 0 if the class does not say.
func shortest(class *ipamv1alpha1.IPClass) int {
	if class.Spec.AllowedPrefixLengths != nil {
		return classBounds(class).min
	}
	return poolLength(class)
}

// classBounds returns the lengths that a class hands out.
func classBounds(class *ipamv1alpha1.IPClass) bounds {
	if r := class.Spec.AllowedPrefixLengths; r != nil {
		return bounds{int(r.Min), int(r.Max)}
	}
	return bounds{0, familyBits(class.Spec.IPFamily)}
}

// poolLength returns the default or only length of a class; 0 if it has none. The pools that the class makes have that
// length.
func poolLength(class *ipamv1alpha1.IPClass) int {
	if length := int(class.Spec.DefaultPrefixLength); length != 0 {
		return length
	}
	if lengths := classBounds(class); lengths.min == lengths.max {
		return lengths.min
	}
	return 0
}

// Unmet returns what CREATE does with a claim that cannot be met now. The claim's own word counts first, then the word
// of its class. If neither says anything, a claim by a class of networks is refused, and so is a claim for a range,
// because programs that read the answer make such claims. Any other claim gets the fallback. The class is nil if the
// claim has none.
func Unmet(
	claim *ipamv1alpha1.IPClaim, class *ipamv1alpha1.IPClass, fallback ipamv1alpha1.UnmetPolicy,
) ipamv1alpha1.UnmetPolicy {
	switch {
	case claim.Spec.UnmetPolicy != "":
		return claim.Spec.UnmetPolicy
	case class != nil && class.Spec.UnmetPolicy != "":
		return class.Spec.UnmetPolicy
	case claim.Spec.Target == ipamv1alpha1.TargetScopeRange, class != nil && ofNetworks(class.Spec):
		return ipamv1alpha1.UnmetRefuse
	default:
		return fallback
	}
}

func ofNetworks(class ipamv1alpha1.IPClassSpec) bool {
	return class.ParentClassName != "" || len(class.PoolPer) > 0 || len(class.UniqueWithin) > 0
}
