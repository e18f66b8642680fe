package resolve

import (
	"fmt"
	"slices"
	"strings"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
)

// authored reports whether a user has written a pool. The pools that the system makes serve the classes below their own
// class. They are found in the ledger, because the fields of an object prove nothing.
func authored(pool *ipamv1alpha1.IPPool) bool { return pool.Spec.ClassRef == nil }

// inScope reports whether a pool serves a scope: the scope names the same object in each role of the pool.
func inScope(pool *ipamv1alpha1.IPPool, scope ipamv1alpha1.Scope) bool {
	for role, ref := range pool.Spec.Scope {
		if scope[role] != ref {
			return false
		}
	}
	return true
}

// within returns words for the scope for which no pool was found; empty without a scope.
func within(scope ipamv1alpha1.Scope) string {
	if len(scope) == 0 {
		return ""
	}
	return " for the scope " + ipamv1alpha1.ScopeColumn(scope)
}

// words lists roles for a message.
func words(roles []string) string {
	if len(roles) == 1 {
		return roles[0]
	}
	return strings.Join(roles[:len(roles)-1], ", ") + " and " + roles[len(roles)-1]
}

// known finds the classes that the pools of a workspace name, and remembers them, because pools of a class often name
// the same other classes. It does not find a class that the workspace may not use: otherwise the workspace would learn
// from its pools that the class exists.
type known struct {
	catalog         Catalog
	owner, platform directory.Workspace
	seen            map[string]*ipamv1alpha1.IPClass
}

func (d *known) class(name string) (*ipamv1alpha1.IPClass, bool) {
	class, ok := d.seen[name]
	if !ok {
		if found, there := d.catalog.Class(name); there && (Query{From: d.owner, Platform: d.platform}).MayUse(found) {
			class = found
		}
		if d.seen == nil {
			d.seen = map[string]*ipamv1alpha1.IPClass{}
		}
		d.seen[name] = class
	}
	return class, class != nil
}

// ClassesDiffer names two classes of a pool that differ in uniqueWithin, so that the pool serves neither; empty if all
// agree. The address spaces of a pool are independent of one another. So all classes that a pool names must be unique
// within the same roles.
func ClassesDiffer(catalog Catalog, pool *ipamv1alpha1.IPPool, owner, platform directory.Workspace) string {
	return (&known{catalog: catalog, owner: owner, platform: platform}).differ(pool)
}

func (d *known) differ(pool *ipamv1alpha1.IPPool) string {
	if len(pool.Spec.ClassNames) < 2 {
		return ""
	}
	var first *ipamv1alpha1.IPClass
	for _, name := range slices.Sorted(slices.Values(pool.Spec.ClassNames)) {
		class, ok := d.class(name)
		if !ok {
			continue
		}
		if first == nil {
			first = class
		} else if !sameRoles(first, class) {
			return fmt.Sprintf(
				"class %q is unique within %s, and class %q within %s; remove one from spec.classNames of the pool",
				first.Name, roles(first), class.Name, roles(class))
		}
	}
	return ""
}

// roles names the uniqueWithin of a class in a message.
func roles(class *ipamv1alpha1.IPClass) string {
	if within := class.Spec.UniqueWithin; len(within) > 0 {
		return words(slices.Sorted(slices.Values(within)))
	}
	return "the pool"
}

// spaces reports whether a class that a pool names gives the pool's addresses out in several address spaces. Such a
// pool serves claims by class alone, and has no child pools and no slices, because their blocks would be in no address
// space.
func (d *known) spaces(pool *ipamv1alpha1.IPPool) bool {
	return slices.ContainsFunc(pool.Spec.ClassNames, func(name string) bool {
		class, ok := d.class(name)
		return ok && len(class.Spec.UniqueWithin) > 0
	})
}

// agrees reports whether the classes of a pool agree, and notes a refusal if they do not. The status of the pool names
// the classes that differ.
func (f *filter) agrees(d *known, pool *ipamv1alpha1.IPPool) bool {
	differs := d.differ(pool) != ""
	if differs {
		f.refusals = append(f.refusals, refuse(ipamv1alpha1.ReasonNoOfferingPool,
			"pool %q serves no class: its classes differ in uniqueWithin, and its owner has to remove one from spec.classNames",
			pool.Name))
	}
	return !differs
}
