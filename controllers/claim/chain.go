package claim

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// A claim by a class with parents gets its block from a pool that the system makes for its scope, or holds such a pool:
//
//	find the deepest pool of the chain that the ledger has
//	  ──▶ make the pools below, one transaction each ──▶ publish the IPPool of the last one ──▶ bind, or hold
//
// The claim's status names that IPPool. The IPPools of the pools above it come a moment later.
//
// If several claims need the same new pool at the same time, one of them makes it, and all use it. A pool that is
// unused may be retired between two steps. Then the claim begins again.

// attempts is how often a claim goes through its chain at most.
const attempts = 5

// errAgain: the claim has to go through its chain again, because the pools of the chain have changed.
var errAgain = errors.New("a pool of the claim's chain has changed meanwhile")

// errReleasing: a pool is closed for the DELETE of the claim that holds it, and that claim is not known to be gone.
var errReleasing = errors.New("a pool of the claim's chain is being released")

// begun calls step until it returns another error than errAgain, or none. The constant attempts limits the calls.
func begun(step func() (ledger.Block, error)) (block ledger.Block, err error) {
	for range attempts {
		if block, err = step(); !errors.Is(err, errAgain) {
			break
		}
	}
	return block, err
}

// descend serves a claim from the last pool of its chain.
func (d *decision) descend(ctx context.Context, plan resolve.Plan) (ledger.Block, error) {
	return begun(func() (ledger.Block, error) {
		block, err := d.descendOnce(ctx, plan)
		if releasing, ok := errors.AsType[*ledger.ReleasingError](err); ok {
			err = d.finish(ctx, releasing.Pool)
		} else if errors.Is(err, ledger.ErrUnknownPool) {
			err = fmt.Errorf("%w: %w", errAgain, err)
		}
		return block, err
	})
}

func (d *decision) descendOnce(ctx context.Context, plan resolve.Plan) (block ledger.Block, err error) {
	pool, above, err := d.provide(ctx, plan)
	if err != nil {
		return block, err
	}
	if imagined(pool) {
		return d.suppose(ctx, plan, pool)
	}
	if d.dry {
		return d.inside(ctx, plan, pool)
	}
	d.r.Ranges.Announce(above...)
	// before the bind: a CREATE that fails here has no block that would keep the next CREATE of its name waiting
	if err := d.r.Ranges.Publish(ctx, pool); err != nil {
		return block, err
	}
	if block, err = d.inside(ctx, plan, pool); err != nil {
		return block, err
	}
	// again: meanwhile the pool may have been closed, lost its IPPool, and been opened
	return block, d.r.Ranges.Publish(ctx, pool)
}

// inside holds the last pool of the claim's chain, or binds the claim's block in it.
func (d *decision) inside(ctx context.Context, plan resolve.Plan, pool ledger.Pool) (ledger.Block, error) {
	if !resolve.IsRange(d.claim) {
		return d.bindWithin(ctx, plan, pool)
	}
	if err := d.asked(plan, pool); err != nil {
		return ledger.Block{}, err
	}
	return d.hold(ctx, pool)
}

// provide returns the last pool of the chain. It makes the pools of the chain that are missing. above has each pool in
// which provide made another pool; a pool in above may be new, too.
func (d *decision) provide(ctx context.Context, plan resolve.Plan) (pool ledger.Pool, above []ledger.Pool, err error) {
	if err := d.unheld(plan); err != nil {
		return pool, nil, err
	}
	from, pool, err := d.start(ctx, plan.Chain)
	if err != nil {
		return pool, nil, err
	}
	for i := from; i < len(plan.Chain); i++ {
		level := plan.Chain[i]
		if resolve.IsRange(d.claim) && i == len(plan.Chain)-1 {
			level.Derived.Holder = d.holder
		}
		if i > 0 {
			above = append(above, pool)
			if err := d.outside(level, plan.Chain[i-1], pool); err != nil {
				return pool, nil, err
			}
			plan.Candidates, plan.Unfit = []resolve.Candidate{derived(pool, level.Strategy, level.Length)}, nil
		}
		if pool, err = d.carve(ctx, plan, level, pool); err != nil {
			return pool, nil, err
		}
		if level.Derived.Holder.Claim != "" && !pool.Derived.HeldSince.After(pool.RegisteredAt) {
			d.held = pool // the hold is as old as the pool: no other CREATE has taken it over, as that would renew it
		}
	}
	return pool, above, nil
}

// carve makes the pool of one level of a chain. At the top of the chain, above is zero, and the pool is made in the
// first candidate of the plan that has room. The candidates are pools that users wrote. Below the top, the only
// candidate is the pool above. The limit of pools is checked only for a pool that all workspaces share, and never for
// an address space that begins with the pool.
func (d *decision) carve(
	ctx context.Context, plan resolve.Plan, level resolve.Level, above ledger.Pool,
) (made ledger.Pool, err error) {
	if above.ID == "" && slices.ContainsFunc(plan.Candidates, d.behind) {
		return made, errBehind
	}
	if level.InPlatform {
		level.Derived.By = d.tenant()
		if err := d.counted(); err != nil {
			return made, err
		}
	}
	plan.ClassName, plan.Limit, plan.Policy, plan.Space = level.Class.Name, level.Limit, "", level.Space
	return draw(ctx, d, need[ledger.Pool]{
		what: "make a pool of class " + level.Class.Name + " in", plan: plan, ask: d.provision(level, above),
		refuse: func(_ context.Context, plan resolve.Plan, tried []miss) error {
			return d.refuseLevel(plan, above, tried)
		},
		request: func(c resolve.Candidate) ledger.Request {
			c.Strategy, c.Length, c.Exact = level.Strategy, level.Length, level.Exact
			req := d.request(plan, c)
			if level.InPlatform {
				req.Limits.Pool = nil // all workspaces share it: none of them holds it
			}
			return req
		},
	})
}

// provision returns the function that asks a candidate for the pool of a level. In a dry run that function takes
// nothing, and returns the pool that would be made.
func (d *decision) provision(level resolve.Level, above ledger.Pool) asksFor[ledger.Pool] {
	wanted := ledger.Pool{Cluster: d.from.Cluster, Name: level.Name, Derived: &level.Derived}
	platform := d.r.Directory.Platform().Cluster
	if level.InPlatform {
		wanted.Cluster = platform
	}
	if wanted.Cluster == platform {
		wanted.Name = unlike(d.r.Ledger.Derived.Named(wanted.Cluster, wanted.Name), wanted)
	}
	return compared(d.r.Compare, func(ctx context.Context, req ledger.Request) (ledger.Pool, error) {
		if !d.dry {
			return d.r.Ledger.Derived.Provision(ctx, req, wanted, level.Excluded)
		}
		made, err := d.imagine(ctx, req, wanted, above)
		if err == nil && level.Excluded != nil {
			made.Excluded = level.Excluded(made.CIDR)
		}
		return made, err
	})
}

// unlike returns the name of a pool in the workspace of the platform. The usual name has eight digits of the pool's
// digest. If another derived pool has that name, unlike returns a name with the whole digest. Otherwise a tenant could
// choose a scope whose pool takes the usual name of another scope's pool, and that pool would get no IPPool.
func unlike(named []ledger.PoolID, made ledger.Pool) string {
	id := made.Derived.ID()
	if !slices.ContainsFunc(named, func(other ledger.PoolID) bool { return other != id }) {
		return made.Name
	}
	digest := ledger.Digest(id)
	return made.Name[:min(strings.LastIndex(made.Name, "-"), 253-1-len(digest))] + "-" + digest
}

// imagine returns the pool that a dry run would carve. The pool above may be imagined, too.
func (d *decision) imagine(ctx context.Context, req ledger.Request, p, above ledger.Pool) (ledger.Pool, error) {
	p.ID = p.Derived.ID()
	req.Holder = ledger.Holder{Claim: ledger.ClaimID(p.ID), Cluster: p.Cluster, Name: p.Name}
	var err error
	if above.ID == "" || !imagined(above) {
		p.CIDR, err = d.r.Ledger.Blocks.Preview(ctx, req)
	} else {
		p.CIDR, err = first(above, req)
	}
	d.imagined = p
	return p, err
}

// imagined reports whether a pool exists only in a dry run. The ledger may have a former pool of the same ID.
func imagined(p ledger.Pool) bool { return p.RegisteredAt.IsZero() }

// refuseLevel returns why the pool of a level cannot be made. The claim is in no waiting list of the ledger: it is
// requeued after a while.
func (d *decision) refuseLevel(plan resolve.Plan, above ledger.Pool, tried []miss) error {
	d.waits.at(nil)
	d.waits.anyway()
	refusal := refusal(plan, tried)
	refusal.Message = fmt.Sprintf("no pool of class %q can be made for this scope: %s", plan.ClassName, refusal.Message)
	if above.ID != "" {
		refusal.Pool = ""
	}
	return refusal
}

// start returns how many levels of a chain have their pool, and the deepest of these pools. If a former class has made
// that pool, and the pool no longer fits, start retires the pool, and the claim makes another one. If the pool is in
// use, start returns a refusal instead. A dry run retires nothing.
func (d *decision) start(ctx context.Context, chain []resolve.Level) (from int, pool ledger.Pool, err error) {
	for from, pool = d.deepest(chain); from > 0; from, pool = d.deepest(chain[:from-1]) {
		unfit := d.unfit(chain[:from], pool)
		if unfit == nil {
			break
		}
		if !catalog.Unused(d.r.Ledger.Pools, d.r.Ledger.Derived, pool) {
			d.waits.at(nil)
			d.waits.anyway()
			return from, pool, unfit
		}
		if d.dry {
			continue
		}
		err := d.r.Ranges.Replace(ctx, pool)
		if errors.Is(err, ledger.ErrPoolInUse) || errors.Is(err, ledger.ErrChanged) {
			err = errAgain // another claim has come to use the pool
		}
		if err != nil {
			return from, pool, fmt.Errorf("retire pool %s of a former class: %w", pool.Name, err)
		}
	}
	return from, pool, nil
}

// deepest returns how many levels of a chain have their pool, and the deepest of these pools.
func (d *decision) deepest(chain []resolve.Level) (many int, pool ledger.Pool) {
	for i, level := range slices.Backward(chain) {
		if there, ok := d.r.Ledger.Pools.Get(level.Derived.ID()); ok {
			return i + 1, there
		}
	}
	return 0, pool
}

// unheld refuses a claim if a pool that it needs is of a class with the provisioning Held, and no claim holds that
// pool.
func (d *decision) unheld(plan resolve.Plan) error {
	needs := plan.Chain
	if resolve.IsRange(d.claim) {
		needs = needs[:len(needs)-1]
	}
	for _, level := range needs {
		if level.Class.Spec.Provisioning != ipamv1alpha1.ProvisionHeld {
			continue
		}
		if pool, ok := d.r.Ledger.Pools.Get(level.Derived.ID()); ok && pool.Derived.Holder.Claim != "" {
			continue
		}
		d.waits.at(nil)
		// the claim is woken when the pool is made; but an existing pool may become held without a change of its IPPool
		d.waits.anyway()
		return &outcome.Refusal{Reason: ipamv1alpha1.ReasonRangeNotHeld, Message: fmt.Sprintf(
			"no claim holds the range of class %q for the scope %s: correct the name in spec.scope of a new claim, "+
				"or claim that range first, with the target ScopeRange",
			level.Class.Name, ipamv1alpha1.ScopeColumn(resolve.APIScope(level.Derived.Scope)))}
	}
	return nil
}

// outside refuses a claim for a range that does not fit into the pool above it.
func (d *decision) outside(level, over resolve.Level, above ledger.Pool) error {
	var refusal *outcome.Refusal
	switch exact := level.Exact; {
	case !resolve.IsRange(d.claim): // the claim asks for no pool: the pool above refuses it
		return nil
	case level.Length <= above.CIDR.Bits():
		refusal = &outcome.Refusal{Reason: ipamv1alpha1.ReasonPrefixLengthRejected, Message: fmt.Sprintf(
			"a /%d is not smaller than %s, the pool of class %q for this scope: ask for a longer length",
			level.Length, above.CIDR, over.Class.Name)}
	case exact.IsValid() && !above.CIDR.Contains(exact.Addr()):
		refusal = &outcome.Refusal{Reason: ipamv1alpha1.ReasonAddressOutOfRange, Message: fmt.Sprintf(
			"%s does not lie in %s, which is the pool of class %q for this scope", exact, above.CIDR, over.Class.Name)}
	default:
		return nil
	}
	d.waits.at(nil)
	d.waits.anyway()
	return refusal
}

// asked refuses a claim for a range that exists with another CIDR or length than the claim asks for.
func (d *decision) asked(plan resolve.Plan, pool ledger.Pool) error {
	last := plan.Chain[len(plan.Chain)-1]
	asks := d.claim.Spec.PrefixLength != 0
	if last.Exact == pool.CIDR || !last.Exact.IsValid() && (!asks || last.Length == pool.CIDR.Bits()) {
		return nil
	}
	d.waits.at(nil)
	d.waits.anyway()
	return &outcome.Refusal{Reason: ipamv1alpha1.ReasonRangeExists, Message: fmt.Sprintf(
		"the range of this scope is %s already: claim it without spec.address and spec.prefixLength, "+
			"or release everything inside it first", pool.CIDR)}
}

// unfit refuses a pool that a former class of the same name has made, if the present class would make a different pool.
// Pools belong to a class by its name, so the present class has that pool now. unfit returns nil for a pool that fits.
// A class that was only edited keeps its pools.
func (d *decision) unfit(chain []resolve.Level, pool ledger.Pool) *outcome.Refusal {
	level, above := chain[len(chain)-1], ledger.PoolID("")
	if len(chain) > 1 {
		above = chain[len(chain)-2].Derived.ID()
	}
	var differs string
	of := pool.Parent
	if apart, is := ledger.AddressSpaceOf(of); is {
		of = apart
	}
	switch made := level.Class.CreationTimestamp.Time; {
	case above != "" && of != above, above == "" && ledger.IsDerived(of):
		differs = "lies in the pool of another class than its parent"
	case pool.Parent != level.Space.In(of):
		differs = "is unique within other roles"
	case pool.RegisteredAt.Before(made) && resolve.Family(pool.CIDR) != level.Class.Spec.IPFamily:
		differs = "is not " + string(level.Class.Spec.IPFamily)
	case pool.RegisteredAt.Before(made) && pool.CIDR.Bits() != level.Length:
		differs = fmt.Sprintf("is a /%d, and no /%d", pool.CIDR.Bits(), level.Length)
	default:
		return nil
	}
	return &outcome.Refusal{Reason: ipamv1alpha1.ReasonChainBroken, Message: fmt.Sprintf(
		"pool %q, for this scope, was made by a former class of the name %q, and %s: "+
			"release everything inside it, or have a class of another name made",
		pool.Name, level.Class.Name, differs)}
}

// derived returns a candidate for a pool that the system has made.
func derived(pool ledger.Pool, strategy ipamv1alpha1.Strategy, length int) resolve.Candidate {
	object := &ipamv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: pool.Name, UID: types.UID(pool.ID)}}
	return resolve.Candidate{Pool: object, Strategy: strategy, Length: length}
}

// counted refuses a claim if its workspace has MaxPools pools already: the workspace gets no further pool that all
// workspaces share, and no further address space. Pools that are made in the workspace itself count, too, but only the
// limit of their class bounds them.
func (d *decision) counted() error {
	if d.r.MaxPools == 0 || d.tenant() == d.r.Directory.Platform().Cluster ||
		d.r.Ledger.Pools.Count(d.tenant()) < d.r.MaxPools {
		return nil
	}
	d.waits.at(nil)
	d.waits.anyway()
	return &outcome.Refusal{Reason: ipamv1alpha1.ReasonQuotaExceeded, Message: fmt.Sprintf(
		"the limit of a workspace is %d pools, with those that were made for its scopes; "+
			"release all claims of some of these, or ask the platform to raise the limit", d.r.MaxPools)}
}

// bindWithin binds the claim's block in the last pool of its chain.
func (d *decision) bindWithin(ctx context.Context, plan resolve.Plan, pool ledger.Pool) (ledger.Block, error) {
	last := plan.Chain[len(plan.Chain)-1]
	exact, ok := plan.ExactIn(pool.CIDR)
	if !ok {
		asked := plan.Exact.String()
		if plan.Number != nil {
			asked = fmt.Sprint("number ", plan.Number.Value)
		}
		d.waits.nowhere()
		return ledger.Block{}, &outcome.Refusal{Reason: ipamv1alpha1.ReasonAddressOutOfRange, Message: fmt.Sprintf(
			"%s does not lie in %s, which is the pool of class %q for this scope", asked, pool.CIDR, last.Class.Name)}
	}
	candidate := derived(pool, plan.Strategy, plan.Length)
	candidate.Exact = exact
	plan.Candidates, plan.Unfit = []resolve.Candidate{candidate}, nil
	block, err := d.try(ctx, plan)
	if refusal, refused := errors.AsType[*outcome.Refusal](err); refused {
		refusal.Pool, refusal.Message = "", fmt.Sprintf("the pool of class %q for this scope: %s",
			last.Class.Name, refusal.Message)
	}
	return block, err
}

// finish ends the release of a pool whose holder is gone, and returns errAgain. It returns another error while the
// holder exists, or is not known to be gone.
func (d *decision) finish(ctx context.Context, id ledger.PoolID) error {
	open := false
	if !d.dry {
		var err error
		if open, err = d.r.Ranges.Complete(ctx, id); err != nil {
			return fmt.Errorf("end the release of pool %s: %w", id, err)
		}
	}
	if !open {
		return &outcome.Fault{Message: "the range of this scope is being released", Err: errReleasing}
	}
	return errAgain
}

// first returns the block that a pool would give if nothing were allocated in it.
func first(in ledger.Pool, req ledger.Request) (netip.Prefix, error) {
	free := index.New(in.CIDR)
	for _, excluded := range in.Excluded {
		if req.Exact.IsValid() && excluded.Overlaps(req.Exact) {
			return netip.Prefix{}, &ledger.ExcludedError{Pool: in.ID, Excluded: excluded}
		}
		free.Exclude(excluded)
	}
	if req.Exact.IsValid() {
		return req.Exact, nil
	}
	p, ok := free.Find(req.Length, req.Strategy)
	if !ok {
		return p, &ledger.ExhaustedError{Pool: in.ID, Length: req.Length, Largest: -1}
	}
	return p, nil
}

// suppose answers a dry run for which a pool would be made: with a block of that pool or, for a claim for a range, with
// the pool itself.
func (d *decision) suppose(ctx context.Context, plan resolve.Plan, pool ledger.Pool) (ledger.Block, error) {
	if resolve.IsRange(d.claim) {
		return d.rangeOf(pool), nil
	}
	supposed := *d
	supposed.ask = func(_ context.Context, req ledger.Request) (ledger.Block, error) {
		prefix, err := first(pool, req)
		return ledger.Block{
			Prefix: prefix, Pool: pool.ID, Holder: d.holder, Class: plan.ClassName,
			Policy: req.Policy, State: ledger.Bound, BoundAt: d.r.clock.Now(),
		}, err
	}
	return supposed.bindWithin(ctx, plan, pool)
}
