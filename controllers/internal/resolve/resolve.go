package resolve

import (
	"cmp"
	"math/big"
	"net/netip"
	"slices"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
)

// Catalog shows the classes and pools. Do not change the objects that it returns.
type Catalog interface {
	// Class finds a class by name.
	Class(name string) (*ipamv1alpha1.IPClass, bool)
	// Classes lists all classes.
	Classes() []*ipamv1alpha1.IPClass
	// DefaultClasses lists the classes marked as default.
	DefaultClasses() []*ipamv1alpha1.IPClass
	// Pool finds a pool of a workspace by name.
	Pool(in directory.Workspace, name string) (*ipamv1alpha1.IPPool, bool)
	// Pools lists the pools of a workspace.
	Pools(in directory.Workspace) []*ipamv1alpha1.IPPool
	// Children lists the classes that name a class as their parent.
	Children(class string) []*ipamv1alpha1.IPClass
	// Backing lists the pools of a workspace that name a class.
	Backing(in directory.Workspace, class string) []*ipamv1alpha1.IPPool
	// Workspace finds a workspace by its path.
	Workspace(path string) (directory.Workspace, bool)
	// Room returns how much of a pool is free, as the strategies see it.
	Room(pool *ipamv1alpha1.IPPool, length int) Room
}

// Room is how much of a pool is free.
type Room struct {
	// Utilization is the share of the pool's addresses that is taken, 0 to 1.
	Utilization float64
	// Fit is the length of the smallest free block that would serve the claim; -1 without one.
	Fit int
	// Largest is the length of the largest free block; -1 if nothing is free.
	Largest int
}

// Query is a claim, and the workspace that asks.
type Query struct {
	Claim    *ipamv1alpha1.IPClaim
	From     directory.Workspace
	Platform directory.Workspace

	slice *ipamv1alpha1.IPPool // the child pool that asks, which may be a slice
}

// Candidate is a pool that may serve the claim.
type Candidate struct {
	Pool  *ipamv1alpha1.IPPool
	Owner directory.Workspace
	// Strategy places the block inside the pool.
	Strategy ipamv1alpha1.Strategy
	// Length is the prefix length to bind there.
	Length int
	// Exact is the block to bind there, if the claim asks for one; the zero Prefix if it takes any.
	Exact netip.Prefix
}

// Plan says where and how a claim may be served. Its candidates are in order.
type Plan struct {
	ClassName string // empty when the claim names its pool
	Family    ipamv1alpha1.IPFamily
	Exact     netip.Prefix // the address asked for; the zero Prefix when none is
	Number    *Number      // the number asked for; nil when none is
	Policy    ipamv1alpha1.ReclaimPolicy
	Limit     *big.Int // how many addresses a workspace may hold by the class; nil: no limit
	// Candidates are the pools that may serve the claim. With a Chain, they are the pools from which its first pool may be
	// carved.
	Candidates []Candidate
	// Chain has the pools that the system makes for the claim's scope, each inside the one before. A claim for a block
	// gets it in the last pool. A ScopeRange gets the last pool itself. Empty: the candidates serve the claim.
	Chain []Level
	// Length and Strategy are those of the block in the last pool of the Chain.
	Length   int
	Strategy ipamv1alpha1.Strategy
	// Space is the address space in which the block is bound, whichever pool that is in; nil: the block is bound in the
	// pool itself.
	Space *Space
	// Unfit are the refusals of pools that could serve the claim, if they handed out its length.
	Unfit []*outcome.Refusal
	// Passed counts the candidates that are not asked, because there are too many. Resolve leaves it 0.
	Passed int
}

// Resolve decides where the claim may be served. If it may be served nowhere, the error is an *outcome.Refusal, and the
// plan names the class if one was found.
func (q Query) Resolve(catalog Catalog) (Plan, error) {
	spec := q.Claim.Spec
	if spec.PoolRef != nil {
		return q.byPool(catalog)
	}
	if spec.PoolSelector != nil {
		return q.bySelector(catalog)
	}
	return q.byClass(catalog)
}

func (q Query) byClass(catalog Catalog) (Plan, error) {
	class, err := q.class(catalog)
	if class == nil {
		return Plan{}, err
	}
	named := Plan{ClassName: class.Name}
	if err != nil {
		return named, err
	}
	levels, err := q.chain(catalog, class)
	if err != nil {
		return named, err
	}
	plan := Plan{
		ClassName: class.Name, Family: class.Spec.IPFamily, Policy: reclaim(q.Claim, class.Spec.ReclaimPolicy),
		Limit: class.Spec.MaxPerConsumer.Int(),
		Chain: q.levels(levels), Strategy: class.Spec.Strategy, Space: q.space(class, q.tenant()),
	}
	if plan.Number, err = q.number(class); err != nil {
		return named, err
	}
	if IsRange(q.Claim) {
		err = q.rangeLength(catalog, class)
	} else {
		plan.Length, err = q.classLength(class, levels.above())
	}
	if err != nil {
		return named, err
	}
	if err := q.candidates(catalog, levels, &plan); err != nil {
		return named, err
	}
	return plan, nil
}

// candidates finds the pools that serve the claim, or from which its chain may be carved. Each of these pools names the
// root class.
func (q Query) candidates(catalog Catalog, levels chain, plan *Plan) error {
	root := levels.root()
	f := filter{query: q, catalog: catalog, family: plan.Family, length: plan.Length}
	if len(plan.Chain) == 0 {
		f.number = plan.Number
	}
	scope, tiers := q.Claim.Spec.Scope, q.tiers()
	if len(plan.Chain) > 0 {
		f.length, scope = plan.Chain[0].Length, scope.Only(root.Spec.PoolPer)
		if plan.Chain[0].InPlatform {
			tiers = []directory.Workspace{q.Platform} // no workspace lends its own pools to all
		}
	}
	for _, owner := range tiers {
		var tier []Candidate
		classes := &known{catalog: catalog, owner: owner, platform: q.Platform}
		for _, pool := range byName(catalog.Backing(owner, root.Name)) {
			if !authored(pool) || !q.mayDraw(pool, owner) || !inScope(pool, scope) || !f.agrees(classes, pool) || !f.pass(pool) {
				continue
			}
			tier = append(tier,
				Candidate{Pool: pool, Owner: owner, Strategy: root.Spec.Strategy, Length: f.length, Exact: f.exactIn(pool)})
		}
		order(tier, root.Spec.Strategy, catalog)
		plan.Candidates = append(plan.Candidates, tier...)
	}
	plan.Exact = f.exact()
	plan.Unfit = because(f.refusals, ipamv1alpha1.ReasonPoolExhausted)
	if len(plan.Candidates) > 0 {
		return nil
	}
	return first(f.refusals, refuse(ipamv1alpha1.ReasonNoOfferingPool,
		"class %q exists, but no ready pool here or on the platform offers it%s", root.Name, within(scope)))
}

// byName sorts pools by name, so that messages do not depend on the order in which a cache lists the pools.
func byName(pools []*ipamv1alpha1.IPPool) []*ipamv1alpha1.IPPool {
	return slices.SortedFunc(slices.Values(pools), func(a, b *ipamv1alpha1.IPPool) int {
		return cmp.Compare(a.Name, b.Name)
	})
}

// tiers returns the workspaces whose pools serve a class, in order.
func (q Query) tiers() []directory.Workspace {
	if q.From.Cluster == q.Platform.Cluster {
		return []directory.Workspace{q.Platform}
	}
	return []directory.Workspace{q.From, q.Platform}
}

// mayDraw reports whether a claim by class may get a block of the pool. It may if the pool is in its own workspace, or
// is a pool of visibility Platform that admits this workspace.
func (q Query) mayDraw(pool *ipamv1alpha1.IPPool, owner directory.Workspace) bool {
	if owner.Cluster == q.From.Cluster {
		return true
	}
	return pool.Spec.Visibility == ipamv1alpha1.VisibilityPlatform && Admits(pool, owner, q.From)
}

// reclaim returns the reclaim policy of the block: the claim's own, or else the class's.
func reclaim(claim *ipamv1alpha1.IPClaim, ofClass ipamv1alpha1.ReclaimPolicy) ipamv1alpha1.ReclaimPolicy {
	return cmp.Or(claim.Spec.ReclaimPolicy, ofClass, ipamv1alpha1.ReclaimDelete)
}
