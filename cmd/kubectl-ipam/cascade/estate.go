// Package cascade deletes many objects at once: the claims inside a range before the range, several at a time, or
// everything that a pool or a range holds in the workspace. It says how many are done, and names objects that are left.
package cascade

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/internal/plural"
)

// Estate lists the objects of a workspace that are deleted together with a pool or with ranges.
type Estate struct {
	// Claims have blocks of the pools, or hold them. The claims of the ranges themselves are among them.
	Claims []*ipamv1alpha1.IPClaim
	// Retained are the allocations that stay when their claims are gone.
	Retained []*ipamv1alpha1.IPAllocation
	// Pools are the pools to delete, each after those below it. Pools that the system has made are not among them: they go
	// by themselves.
	Pools []*ipamv1alpha1.IPPool

	names   map[place]bool // of all pools
	ranges  []*ipamv1alpha1.IPClaim
	classes map[string]*ipamv1alpha1.IPClass
}

// place is the name of a pool, and the workspace of the pool; empty for the current one.
type place struct{ workspace, name string }

func placeOf(ref *ipamv1alpha1.PoolRef) place {
	if ref == nil {
		return place{}
	}
	return place{facts.Workspace(*ref), ref.Name}
}

// String names the pool, if there is one, and counts the other objects.
func (e *Estate) String() string {
	var said []string
	if below := len(e.Pools) - 1; below >= 0 {
		root := e.Pools[below]
		said = append(said, "pool "+root.Name)
		if root.Status.AllocatedCIDR != "" {
			said[0] += " (" + root.Status.AllocatedCIDR + ")"
		}
		if below > 0 {
			said = append(said, fmt.Sprintf("%d carved from it", below))
		}
	}
	if len(e.Claims) > 0 {
		said = append(said, plural.Of(len(e.Claims), "claim", "claims"))
	}
	if len(e.Retained) > 0 {
		said = append(said, plural.Of(len(e.Retained), "retained block", "retained blocks"))
	}
	return strings.Join(said, ", ")
}

// OfPool finds the objects that a pool holds in its own workspace.
func OfPool(ctx context.Context, c client.Client, root *ipamv1alpha1.IPPool) (*Estate, error) {
	pools, claims, records := &ipamv1alpha1.IPPoolList{}, &ipamv1alpha1.IPClaimList{}, &ipamv1alpha1.IPAllocationList{}
	for _, list := range []client.ObjectList{pools, claims, records} {
		if err := c.List(ctx, list); err != nil {
			return nil, err
		}
	}
	e := &Estate{}
	e.AddPool(root, pools.Items)
	e.addHolders(claims.Items, records.Items)
	return e, nil
}

// OfRanges finds the objects inside ranges. If the caller may not read those of the whole workspace, it finds those of
// the namespace.
func OfRanges(ctx context.Context, c client.Client, namespace string, ranges []*ipamv1alpha1.IPClaim) (*Estate, error) {
	pools, claims, records := &ipamv1alpha1.IPPoolList{}, &ipamv1alpha1.IPClaimList{}, &ipamv1alpha1.IPAllocationList{}
	classes := &ipamv1alpha1.IPClassList{}
	for _, list := range []client.ObjectList{pools, classes} { // without these, less is known to be inside
		if err := c.List(ctx, list); exit.IgnoreUnseen(err) != nil {
			return nil, err
		}
	}
	for _, list := range []client.ObjectList{claims, records} {
		err := c.List(ctx, list)
		if apierrors.IsForbidden(err) {
			err = c.List(ctx, list, client.InNamespace(namespace))
		}
		if err != nil {
			return nil, err
		}
	}
	e := &Estate{ranges: ranges, classes: map[string]*ipamv1alpha1.IPClass{}}
	for i := range classes.Items {
		e.classes[classes.Items[i].Name] = &classes.Items[i]
	}
	for _, r := range ranges {
		if r.Status.PoolRef != nil {
			e.addBelow(placeOf(r.Status.PoolRef), pools.Items)
		}
	}
	e.addHolders(claims.Items, records.Items)
	return e, nil
}

// AddPool adds a pool after all pools below it. It adds each once, even if a pool is one of its own ancestors.
func (e *Estate) AddPool(pool *ipamv1alpha1.IPPool, all []ipamv1alpha1.IPPool) {
	e.addBelow(place{name: pool.Name}, all)
	if pool.Spec.ClassRef == nil {
		e.Pools = append(e.Pools, pool)
	}
}

// addBelow adds the name of a pool, and the pools that are carved from it.
func (e *Estate) addBelow(at place, all []ipamv1alpha1.IPPool) {
	if e.names == nil {
		e.names = map[place]bool{}
	}
	e.names[at] = true
	for i := range all {
		if placeOf(all[i].Parent()) == at && !e.names[place{name: all[i].Name}] {
			e.AddPool(&all[i], all)
		}
	}
}

// addHolders adds the claims and the retained blocks that are in the pools.
func (e *Estate) addHolders(claims []ipamv1alpha1.IPClaim, records []ipamv1alpha1.IPAllocation) {
	for i := range claims {
		claim := &claims[i]
		holds := func(r *ipamv1alpha1.IPClaim) bool { return e.inside(claim, r) }
		if e.names[placeOf(claim.Status.PoolRef)] || e.names[placeOf(claim.Spec.PoolRef)] ||
			slices.ContainsFunc(e.ranges, holds) {
			e.Claims = append(e.Claims, claim)
		}
	}
	for i := range records {
		record := &records[i]
		if (record.Spec.ClaimRef == nil || record.Spec.ReclaimPolicy == ipamv1alpha1.ReclaimRetain) &&
			e.names[placeOf(&record.Spec.PoolRef)] {
			e.Retained = append(e.Retained, record)
		}
	}
}

// inside reports whether the block of a claim is inside a range, if both are in a pool of another workspace: the names
// of such pools do not tell. The block must be in the range, and the claim's scope must name the same objects for the
// roles of the range's class, because another network may have the same addresses.
func (e *Estate) inside(claim, r *ipamv1alpha1.IPClaim) bool {
	in := placeOf(r.Status.PoolRef).workspace
	if in == "" || in != placeOf(claim.Status.PoolRef).workspace || claim.UID == r.UID {
		return false
	}
	whole, err := netip.ParsePrefix(r.Status.AllocatedCIDR)
	block, err2 := netip.ParsePrefix(claim.Status.AllocatedCIDR)
	if err != nil || err2 != nil || !whole.Contains(block.Addr()) || block.Bits() < whole.Bits() {
		return false
	}
	for role, of := range r.Spec.Scope {
		class := e.classes[r.Status.ClassName]
		if (class == nil || slices.Contains(class.Spec.PoolPer, role)) && claim.Spec.Scope[role] != of {
			return false
		}
	}
	return true
}

// Levels returns the claims in the order in which they can be released: blocks, then ranges from the smallest to the
// largest. The claims of one level can be released at the same time. A range is larger than the ranges inside it.
func Levels(claims []*ipamv1alpha1.IPClaim) (levels [][]client.Object) {
	sorted := slices.SortedStableFunc(slices.Values(claims), func(a, b *ipamv1alpha1.IPClaim) int {
		return cmp.Compare(hostBits(a), hostBits(b))
	})
	for i, claim := range sorted {
		if i == 0 || hostBits(sorted[i-1]) != hostBits(claim) {
			levels = append(levels, nil)
		}
		levels[len(levels)-1] = append(levels[len(levels)-1], claim)
	}
	return levels
}

// hostBits returns in how many bits the addresses of a range differ; -1 for a block, and for a claim without a block.
func hostBits(claim *ipamv1alpha1.IPClaim) int {
	block, err := netip.ParsePrefix(claim.Status.AllocatedCIDR)
	if err != nil || claim.Spec.Target != ipamv1alpha1.TargetScopeRange {
		return -1
	}
	return block.Addr().BitLen() - block.Bits()
}
