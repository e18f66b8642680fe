package resolve

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kcp-ipam/ipam/allocator/index"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
)

// Ready reports whether a pool has its CIDR, and is not being deleted. An exhausted pool is ready, too.
func Ready(pool *ipamv1alpha1.IPPool) bool {
	return meta.IsStatusConditionTrue(pool.Status.Conditions, ipamv1alpha1.ConditionAllocated) &&
		pool.DeletionTimestamp.IsZero()
}

// byPool plans a claim that names its pool.
func (q Query) byPool(catalog Catalog) (Plan, error) {
	ref := q.Claim.Spec.PoolRef
	missing := q.missing(ref.Name, ref.ProjectRef)
	owner, ok := q.workspace(catalog, ref.ProjectRef)
	if !ok {
		return Plan{}, missing
	}
	pool, ok := catalog.Pool(owner, ref.Name)
	if !ok || !q.mayName(pool, owner) {
		return Plan{}, missing
	}
	classes := &known{catalog: catalog, owner: owner, platform: q.Platform}
	if refusal := q.byClassAlone(classes, pool, owner); refusal != nil {
		return Plan{}, refusal
	}
	f := filter{query: q, catalog: catalog}
	return f.plan([]*ipamv1alpha1.IPPool{pool}, owner, refuse(ipamv1alpha1.ReasonPoolNotFound,
		"pool %q is not ready%s", ref.Name, q.unready(pool, owner)))
}

// missing refuses a claim whose pool does not exist, or may not be used by the claim.
func (q Query) missing(name string, in *ipamv1alpha1.ProjectRef) *outcome.Refusal {
	return refuse(ipamv1alpha1.ReasonPoolNotFound,
		"there is no pool %q %s; name one that exists, create it, or ask its owner to share it; "+
			"a pool of the platform is claimed by class", name, q.in(in))
}

// bySelector plans a claim that selects its pool by labels.
func (q Query) bySelector(catalog Catalog) (Plan, error) {
	missing := refuse(ipamv1alpha1.ReasonPoolNotFound, "the pool selector matches no ready pool %s",
		q.in(q.Claim.Spec.PoolSelector.ProjectRef))
	selector, err := metav1.LabelSelectorAsSelector(q.Claim.Spec.PoolSelector.LabelSelector())
	if err != nil {
		return Plan{}, refuse(ipamv1alpha1.ReasonPoolNotFound, "the pool selector is invalid: %v", err)
	}
	owner, ok := q.workspace(catalog, q.Claim.Spec.PoolSelector.ProjectRef)
	if !ok {
		return Plan{}, missing
	}
	var pools []*ipamv1alpha1.IPPool
	classes := &known{catalog: catalog, owner: owner, platform: q.Platform}
	for _, pool := range catalog.Pools(owner) {
		if selector.Matches(labels.Set(pool.Labels)) && q.mayName(pool, owner) &&
			q.byClassAlone(classes, pool, owner) == nil {
			pools = append(pools, pool)
		}
	}
	f := filter{query: q, catalog: catalog}
	return f.plan(pools, owner, missing)
}

// byClassAlone refuses a pool to a claim that names or selects it, and to a child pool, if the pool serves only claims
// by class, or only another scope. If the pool is in another workspace, the refusal is the same as for a pool that does
// not exist.
func (q Query) byClassAlone(classes *known, pool *ipamv1alpha1.IPPool, owner directory.Workspace) *outcome.Refusal {
	why := ""
	switch {
	case !authored(pool):
		why = fmt.Sprintf("was made for the claims of class %q: claim by a class", pool.Spec.ClassRef.Name)
	case classes.spaces(pool):
		why = "has several address spaces, by uniqueWithin of its classes: claim by a class"
	case q.slice == nil && !inScope(pool, q.Claim.Spec.Scope):
		why = "serves no other scope than " + ipamv1alpha1.ScopeColumn(pool.Spec.Scope)
	case q.slice != nil && !IsSlice(q.slice, pool) && !inScope(pool, q.slice.Spec.Scope):
		why = "serves no other scope than " + ipamv1alpha1.ScopeColumn(pool.Spec.Scope) +
			": give the child pool that scope, too"
	default:
		return nil
	}
	if owner.Cluster != q.From.Cluster {
		return q.missing(pool.Name, &ipamv1alpha1.ProjectRef{Name: owner.Path})
	}
	return refuse(ipamv1alpha1.ReasonPoolNotFound, "pool %q %s", pool.Name, why)
}

// in returns words for the workspace in which a pool was searched. They are the same whether or not the pool exists,
// and whether or not the claim may use it.
func (q Query) in(ref *ipamv1alpha1.ProjectRef) string {
	if ref == nil || ref.Name == q.From.Path {
		return "here"
	}
	return fmt.Sprintf("in the workspace %q that this one may use", ref.Name)
}

// unready returns why a pool of the claim's own workspace has no CIDR.
func (q Query) unready(pool *ipamv1alpha1.IPPool, owner directory.Workspace) string {
	said := meta.FindStatusCondition(pool.Status.Conditions, ipamv1alpha1.ConditionAllocated)
	if owner.Cluster != q.From.Cluster || said == nil || said.Status == metav1.ConditionTrue {
		return ""
	}
	return ": " + said.Reason
}

// workspace returns the workspace that a reference names; nil stands for the claim's own.
func (q Query) workspace(catalog Catalog, ref *ipamv1alpha1.ProjectRef) (directory.Workspace, bool) {
	if ref == nil || ref.Name == q.From.Path {
		return q.From, true
	}
	return catalog.Workspace(ref.Name)
}

// mayName reports whether a claim may name the pool. A pool of visibility Platform in another workspace serves only
// claims by class, and its own slices.
func (q Query) mayName(pool *ipamv1alpha1.IPPool, owner directory.Workspace) bool {
	if owner.Cluster != q.From.Cluster && pool.Spec.Visibility != ipamv1alpha1.VisibilityShared &&
		(q.slice == nil || !IsSlice(q.slice, pool)) {
		return false
	}
	return Admits(pool, owner, q.From)
}

// plan returns the pools that can serve the claim, sorted by name. notReady is the refusal if none of them is ready.
func (f *filter) plan(
	pools []*ipamv1alpha1.IPPool, owner directory.Workspace, notReady *outcome.Refusal,
) (Plan, error) {
	plan := Plan{Policy: reclaim(f.query.Claim, ""), Exact: f.exact()}
	asked, err := askedLength(f.query.Claim)
	if err != nil {
		return Plan{}, err
	}
	for _, pool := range byName(pools) {
		if !Ready(pool) {
			f.refusals = append(f.refusals, notReady)
			continue
		}
		f.family, f.length = pool.Status.IPFamily, cmp.Or(asked, onlyLength(pool))
		if !f.pass(pool) {
			continue
		}
		plan.Family = f.family
		plan.Candidates = append(plan.Candidates, Candidate{
			Pool: pool, Owner: owner, Strategy: pool.Spec.Allocation.Strategy, Length: f.length, Exact: f.exact(),
		})
	}
	if len(plan.Candidates) == 0 {
		return Plan{}, first(f.refusals, notReady)
	}
	plan.Unfit = because(f.refusals, ipamv1alpha1.ReasonPoolExhausted)
	return plan, nil
}

// onlyLength returns the length that a pool hands out, if there is only one; 0 if there are several.
func onlyLength(pool *ipamv1alpha1.IPPool) int {
	if a := pool.Spec.Allocation; a.MinPrefixLength == a.MaxPrefixLength {
		return int(a.MinPrefixLength)
	}
	return 0
}

// order sorts candidates as the strategy wants them: by name, by the tightest
// fit, or by how little they are used.
func order(candidates []Candidate, strategy ipamv1alpha1.Strategy, catalog Catalog) {
	rooms := map[*ipamv1alpha1.IPPool]Room{}
	if strategy == ipamv1alpha1.BestFit || strategy == ipamv1alpha1.LeastUtilized {
		for _, c := range candidates {
			rooms[c.Pool] = catalog.Room(c.Pool, c.Length)
		}
	}
	slices.SortFunc(candidates, func(a, b Candidate) int {
		byRoom := 0
		switch strategy {
		case ipamv1alpha1.BestFit:
			byRoom = cmp.Compare(rooms[b.Pool].Fit, rooms[a.Pool].Fit)
		case ipamv1alpha1.LeastUtilized:
			byRoom = cmp.Compare(rooms[a.Pool].Utilization, rooms[b.Pool].Utilization)
		case ipamv1alpha1.FirstFit: // by name alone
		}
		return cmp.Or(byRoom, cmp.Compare(a.Pool.Name, b.Pool.Name))
	})
}

// IsSlice reports whether a pool is a slice of the parent, and agrees with the parent's present settings for slices.
// The label alone marks a slice: admission lets only the system set it.
func IsSlice(child, parent *ipamv1alpha1.IPPool) bool {
	return child.Labels[ipamv1alpha1.LabelSlice] == string(parent.UID) && child.Name == parent.Name &&
		parent.Spec.Slices != nil && child.Spec.PrefixLength == parent.Spec.Slices.PrefixLength
}

// AdmitsToSlices reports whether a workspace should have a slice of the platform's pool.
func AdmitsToSlices(pool *ipamv1alpha1.IPPool, platform, who directory.Workspace) bool {
	return who.Cluster != platform.Cluster && Admits(pool, platform, who)
}

// Strategy converts a strategy of the API into a strategy of the ledger.
func Strategy(s ipamv1alpha1.Strategy) index.Strategy {
	switch s {
	case ipamv1alpha1.BestFit:
		return index.BestFit
	case ipamv1alpha1.LeastUtilized:
		return index.LeastUtilized
	default:
		return index.FirstFit
	}
}
