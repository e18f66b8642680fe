package resolve

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
)

// maxLevels is how many classes a chain has at most.
const maxLevels = 8

// chain has a class first, then its parent, and so on. The last class is the root, which authored pools name.
type chain []*ipamv1alpha1.IPClass

func (c chain) root() *ipamv1alpha1.IPClass { return c[len(c)-1] }

// above returns the parent of the class; nil if it has none.
func (c chain) above() *ipamv1alpha1.IPClass {
	if len(c) < 2 {
		return nil
	}
	return c[1]
}

// Chain returns the root of a class's chain, which the pools of the class name. It also returns the roles that the
// scope of a claim by the class must have, sorted. broken names a fault of the class or of a class above it; nil if
// claims may use the class. If there is a fault, root and roles are those of the classes that are known.
func Chain(
	catalog Catalog, class *ipamv1alpha1.IPClass,
) (root *ipamv1alpha1.IPClass, roles []string, broken *outcome.Refusal) {
	levels, broken := chainOf(catalog, class)
	return levels.root(), levels.roles(), broken
}

// roles returns the roles that a claim must have: those of the class's uniqueWithin, and those of each poolPer. The
// roles in uniqueWithin of a class above are also in its poolPer.
func (c chain) roles() []string {
	roles := slices.Clone(c[0].Spec.UniqueWithin)
	for _, class := range c {
		roles = append(roles, class.Spec.PoolPer...)
	}
	roles = slices.DeleteFunc(roles, func(role string) bool {
		return role == ipamv1alpha1.RoleProject || role == ipamv1alpha1.RoleAllProjects
	})
	slices.Sort(roles)
	return slices.Compact(roles)
}

// chainOf follows the parents of a class up to the root. It refuses a chain with a class that does not fit.
func chainOf(catalog Catalog, class *ipamv1alpha1.IPClass) (chain, *outcome.Refusal) {
	levels := chain{class}
	for {
		top := levels.root()
		if refusal := cmp.Or(sound(catalog, top), levels.apart()); refusal != nil {
			return levels, refusal
		}
		name := top.Spec.ParentClassName
		if name == "" {
			return levels, nil
		}
		if slices.ContainsFunc(levels, func(c *ipamv1alpha1.IPClass) bool { return c.Name == name }) {
			return levels, broken(top, "its parent %q is below it: a chain of classes has no cycle", name)
		}
		if len(levels) == maxLevels {
			return levels, broken(class, "there are more than %d classes from it to the root", maxLevels)
		}
		parent, ok := catalog.Class(name)
		if !ok {
			return levels, broken(top, "its parent %q does not exist", name)
		}
		if refusal := fits(top, parent); refusal != nil {
			return append(levels, parent), refusal
		}
		levels = append(levels, parent)
	}
}

// apart refuses a root with uniqueWithin if a class between it and the lowest class has uniqueWithin, too. Of the
// classes below such a root, only the lowest may have it.
func (c chain) apart() *outcome.Refusal {
	root := c.root()
	if len(root.Spec.UniqueWithin) == 0 || len(c) < 3 {
		return nil
	}
	for _, between := range c[1 : len(c)-1] {
		if len(between.Spec.UniqueWithin) > 0 {
			return broken(between, "it has uniqueWithin, as class %q above it: of the classes below that, only the last may",
				root.Name)
		}
	}
	return nil
}

func broken(class *ipamv1alpha1.IPClass, format string, args ...any) *outcome.Refusal {
	return refuse(ipamv1alpha1.ReasonChainBroken, "class %q: %s", class.Name, fmt.Sprintf(format, args...))
}

// sound checks a class of a chain against the older classes with the same parent: all must have the same uniqueWithin.
// The schema refuses classes that contradict themselves.
func sound(catalog Catalog, class *ipamv1alpha1.IPClass) *outcome.Refusal {
	spec := class.Spec
	if spec.ParentClassName == "" {
		return nil
	}
	for _, other := range catalog.Children(spec.ParentClassName) {
		if older(other, class) && !sameRoles(other, class) {
			name := " " + strconv.Quote(other.Name)
			if !Published(other) {
				name = "" // some workspaces that may see this class may not see the other one
			}
			return broken(class, "it has another uniqueWithin than the older class%s, which takes blocks from the same pools",
				name)
		}
	}
	return nil
}

// fits checks a class against its parent.
func fits(class, parent *ipamv1alpha1.IPClass) *outcome.Refusal {
	length := poolLength(parent)
	shortest := shortest(class)
	switch {
	case parent.Spec.Provisioner != "" && parent.Spec.Provisioner != ipamv1alpha1.NativeProvisioner:
		return broken(parent, "it is provisioned by %q, which is not served here", parent.Spec.Provisioner)
	case parent.Spec.IPFamily != class.Spec.IPFamily:
		return broken(class, "it is %s, and its parent %q is %s", class.Spec.IPFamily, parent.Name, parent.Spec.IPFamily)
	case len(parent.Spec.PoolPer) == 0:
		return broken(parent, "it has no poolPer, so that class %q has no pools to take blocks from", class.Name)
	case shortest != 0 && shortest <= length:
		return broken(class, "it hands out a /%d, which is not smaller than a pool of its parent %q, a /%d",
			shortest, parent.Name, length)
	case shared(class) && !shared(parent):
		return broken(class, "all workspaces share its pools, and each has its own of its parent %q: "+
			"give both project, or both allProjects", parent.Name)
	}
	return nil
}

// shared reports whether all workspaces share the pools of a class.
func shared(class *ipamv1alpha1.IPClass) bool {
	return slices.Contains(class.Spec.PoolPer, ipamv1alpha1.RoleAllProjects)
}

// older reports whether a class was made before another.
func older(a, b *ipamv1alpha1.IPClass) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// sameRoles reports whether two classes agree on uniqueWithin.
func sameRoles(a, b *ipamv1alpha1.IPClass) bool {
	return slices.Equal(slices.Sorted(slices.Values(a.Spec.UniqueWithin)),
		slices.Sorted(slices.Values(b.Spec.UniqueWithin)))
}

// chain returns the chain of a class, or refuses it. It refuses the class if its chain is broken, if the claim asks for
// a range that the class does not have, and if the claim's scope lacks roles.
func (q Query) chain(catalog Catalog, class *ipamv1alpha1.IPClass) (chain, error) {
	levels, refusal := chainOf(catalog, class)
	if refusal != nil {
		return nil, refusal
	}
	if IsRange(q.Claim) && len(class.Spec.PoolPer) == 0 {
		return nil, refuse(ipamv1alpha1.ReasonTargetRejected,
			"class %q has no poolPer, and so no range that a claim could hold: claim a block, or name a class with poolPer",
			class.Name)
	}
	if missing := q.Claim.Spec.Scope.Missing(levels.roles()); len(missing) > 0 {
		refusal := refuse(ipamv1alpha1.ReasonScopeRolesMissing,
			"class %q requires an object for each of its roles, and spec.scope names none for %s: add it in a new claim",
			class.Name, words(missing))
		refusal.Roles = missing
		return nil, refusal
	}
	return levels, nil
}

// IsRange reports whether a claim asks to hold a pool.
func IsRange(claim *ipamv1alpha1.IPClaim) bool {
	return claim.Spec.Target == ipamv1alpha1.TargetScopeRange
}
