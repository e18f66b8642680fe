package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// decision decides which block a claim gets, or why it gets none: by policy, then by the
// ledger. The reconcile and the door decide alike. They differ in who holds the block, in how a
// candidate is asked for it, and in the waits of a claim that gets none.
type decision struct {
	r      *Reconciler
	claim  *ipamv1alpha1.IPClaim
	from   directory.Workspace
	holder ledger.Holder
	since  time.Time // the claim's place among those that wait
	ask    asks
	waits  waits
	class  string // that governs the claim, as far as it is known

	// succeeds reports whether another holder of the claim's name cannot be there any more, since it came.
	succeeds func(ctx context.Context, to ledger.Holder, since time.Time) (bool, error)
	dry      bool        // nothing is to be taken
	begun    bool        // of a CREATE: it has its turn
	imagined ledger.Pool // of a dry run: the last pool that would be made
	held     ledger.Pool // of a claim for a range: as it holds it since this decision; without an ID: it does not
}

// tenant says whose the claim is.
func (d *decision) tenant() ledger.ClusterName { return d.from.Cluster.Tenant(d.claim.Namespace) }

// mostAsked is how many candidates a claim asks for a block, and waits for.
const mostAsked = 64

// asks asks a candidate for a block. Its errors are those of [allocator.Allocator.Bind].
type asks = asksFor[ledger.Block]

// asksFor asks a candidate for a block, or for a pool.
type asksFor[T any] func(context.Context, ledger.Request) (T, error)

// waits are those of a claim that gets no block.
type waits interface {
	// enter replaces the topics whose change may end the wait. It is called before the
	// catalog is read, so that no change is missed. waits is false if the claim waits for none, whatever they are.
	enter(topics []topic) (waits bool)
	// nowhere ends all waits for room.
	nowhere()
	// at waits for room as the requests say, and nowhere else. It reports false, and waits nowhere, if the claims of
	// the workspace wait at too many pools.
	at(requests []ledger.Request) bool
	// unchecked is called when the pool of a request was not compared with its IPPool. It
	// returns an error where the claim is to say nothing of that yet.
	unchecked(r ledger.Request) error
	// anyway is called when the claim cannot wait for all that could serve it: it is to look again after a while.
	anyway()
}

// place resolves the claim and takes a block of the first candidate that has room. A claim that
// finds none waits at every candidate.
func (d *decision) place(ctx context.Context) (ledger.Block, error) {
	plan, err := d.plan(ctx)
	if err != nil {
		d.waits.nowhere()
		return ledger.Block{}, err
	}
	d.claim.Status.ClassName = plan.ClassName
	d.claim.Status.IPFamily = plan.Family
	if len(plan.Chain) > 0 {
		return d.descend(ctx, plan)
	}
	return d.try(ctx, plan)
}

// plan resolves the claim. It waits for all that may change that, and for more topics.
func (d *decision) plan(ctx context.Context, more ...topic) (resolve.Plan, error) {
	topics := append(topicsOf(d.claim, d.from, d.r.Directory.Platform(), d.r.Directory.Find), more...)
	waits := d.waits.enter(topics)
	plan, err := d.resolve(ctx)
	if waits {
		byDefault := plan.ClassName != "" && d.claim.Spec.ClassName == ""
		above := topicsAbove(d.r.Catalog.View(ctx), plan.ClassName, d.from, d.r.Directory.Platform())
		if err != nil { // by a class beside its own, perhaps, or by another one that its pool names
			above = append(above, topic{kind: defaultTopic})
		}
		if byDefault {
			topics = append(topicsOfDefault(plan.ClassName, d.from, d.r.Directory.Platform()), more...)
		}
		if byDefault || len(above) > 0 { // look once more, now waiting for all of these, too
			d.waits.enter(append(topics, above...))
			plan, err = d.resolve(ctx)
		}
	}
	d.claim.Status.Requested = requested(d.claim.Spec, plan)
	return plan, err
}

// resolve reads the catalog.
func (d *decision) resolve(ctx context.Context) (resolve.Plan, error) {
	ctx, end := step(ctx, "resolve")
	defer end(nil) // a refusal is an answer
	view := d.r.Catalog.View(ctx)
	plan, err := resolve.Query{Claim: d.claim, From: d.from, Platform: d.r.Directory.Platform()}.Resolve(view)
	if viewErr := view.Err(); viewErr != nil {
		return resolve.Plan{}, viewErr
	}
	d.class = plan.ClassName
	return plan, err
}

// try binds the claim's block.
func (d *decision) try(ctx context.Context, plan resolve.Plan) (ledger.Block, error) {
	if slices.ContainsFunc(plan.Candidates, d.behind) {
		return ledger.Block{}, errBehind
	}
	plan.Candidates = d.ordered(plan)
	return draw(ctx, d, need[ledger.Block]{
		what: "bind in", plan: plan, ask: d.ask, more: d.counted, refuse: d.refuse,
		request: func(c resolve.Candidate) ledger.Request { return d.request(plan, c) },
	})
}

// need is what a decision asks candidates for: the claim's block, or a pool of its chain.
type need[T any] struct {
	what    string // for errors, before the candidate
	plan    resolve.Plan
	request func(resolve.Candidate) ledger.Request
	ask     asksFor[T]
	more    func() error // refuses one more address space; nil: it may be made
	refuse  func(context.Context, resolve.Plan, []miss) error
}

// draw asks the candidates in turn. A pool that the system has made and that is gone ends that: the chain has changed.
func draw[T any](ctx context.Context, d *decision, n need[T]) (got T, err error) {
	var tried []miss
	candidates := d.few(ctx, n.plan.Candidates, n.request)
	n.plan.Passed = len(n.plan.Candidates) - len(candidates)
	for _, c := range candidates {
		request := n.request(c)
		c.Exact = request.Exact // a refusal names it
		got, err = drawFrom(ctx, d, n, request)
		if unchecked(err) {
			if err := d.waits.unchecked(request); err != nil {
				return got, err
			}
		}
		switch gone := errors.Is(err, ledger.ErrUnknownPool); {
		case err == nil:
			return got, nil
		case gone && !ledger.IsDerived(c.Pool.UID), errors.Is(err, ledger.ErrPoolDraining),
			errors.Is(err, ledger.ErrOutOfRange):
			continue // the catalog lags behind the ledger
		case refusedRoom(err), overClass(err):
			tried = append(tried, miss{c, err})
		default:
			return got, fmt.Errorf("%s pool %s: %w", n.what, c.Pool.Name, err)
		}
		if overClass(err) {
			break
		}
	}
	return got, n.refuse(ctx, n.plan, tried)
}

// drawFrom asks a pool. Where addresses are unique within the claim's scope, it asks the address space that the pool
// has for that, which begins with its first block. In a dry run the pool itself stands for one that is not there.
func drawFrom[T any](ctx context.Context, d *decision, n need[T], request ledger.Request) (got T, err error) {
	if _, known := d.r.Ledger.Pools.Get(request.Pool); known || request.Begins == nil {
		return n.ask(ctx, request)
	}
	if n.more != nil {
		err = n.more()
	}
	if err != nil {
		return got, err
	}
	if d.dry {
		request.Pool, request.Begins = request.Begins.Of, nil
	}
	return n.ask(ctx, request)
}

// ordered puts the candidate first in which the former block of the claim cools: the claim gets that back.
func (d *decision) ordered(plan resolve.Plan) []resolve.Candidate {
	if len(plan.Candidates) < 2 {
		return plan.Candidates
	}
	return byPlace(plan.Candidates, func(c resolve.Candidate) int {
		if d.r.Ledger.Pools.Regains(d.request(plan, c)) {
			return 0
		}
		return 1
	})
}

// byPlace sorts candidates by their places, and keeps the order of those that have the same one.
func byPlace(candidates []resolve.Candidate, of func(resolve.Candidate) int) []resolve.Candidate {
	place := make(map[types.UID]int, len(candidates))
	for _, c := range candidates {
		place[c.Pool.UID] = of(c)
	}
	return slices.SortedStableFunc(slices.Values(candidates), func(a, b resolve.Candidate) int {
		return cmp.Compare(place[a.Pool.UID], place[b.Pool.UID])
	})
}

// few are the candidates that are asked, in their order. Each costs a transaction, and a place on a waiting list: a
// workspace may have any number of pools. Of too many, those come first that would give the claim a block as of memory,
// which knows what is held for it, and those last that never give the address.
func (d *decision) few(
	ctx context.Context, candidates []resolve.Candidate, request func(resolve.Candidate) ledger.Request,
) []resolve.Candidate {
	if len(candidates) <= mostAsked {
		return candidates
	}
	return byPlace(candidates, func(c resolve.Candidate) int {
		r := request(c)
		if _, known := d.r.Ledger.Pools.Get(r.Pool); !known {
			return 1 // usually an address space that is not there yet: the ledger would be asked to confirm that
		}
		_, err := d.r.Ledger.Blocks.Preview(ctx, r)
		switch _, excluded := (miss{c, err}).excluded(); {
		case excluded:
			return 2
		case err != nil:
			return 1
		}
		return 0
	})[:mostAsked]
}

// refuse has the claim wait at every candidate that was tried, and nowhere else any more,
// and says why it does. No room ends the wait at a pool that excludes the address: a change of
// the pool does, which is one of the claim's topics. A pool that has room and refuses all the same would wake the
// claim at once, again and again, and an address space that is not there has no waiting list: then the claim looks
// again.
func (d *decision) refuse(ctx context.Context, plan resolve.Plan, tried []miss) error {
	var requests []ledger.Request
	again := plan.Passed > 0 || len(plan.Chain) > 0 && len(tried) == 0
	for _, m := range tried {
		request := d.request(plan, m.Candidate)
		_, known := d.r.Ledger.Pools.Get(request.Pool)
		switch _, excluded := m.excluded(); {
		case excluded:
		case !known, errors.Is(m.err, ledger.ErrMixed):
			again = true
		default:
			requests = append(requests, request)
		}
	}
	refusal := refusal(plan, tried)
	if refusal.Reason == ipamv1alpha1.ReasonAddressInUse {
		refusal.Message += d.unstored(ctx, tried)
	}
	if !d.waits.at(requests) {
		refusal.Message = crowded(d.r.MaxWaits, refusal.Message)
	} else if again {
		d.waits.anyway()
	}
	return refusal
}

// unstored says when an address is free that was answered to another CREATE of the claim's name, whose claim is not
// there; nothing of any other address.
func (d *decision) unstored(ctx context.Context, tried []miss) string {
	for _, m := range tried {
		blocks, err := d.r.Ledger.Pools.Overlapping(ctx, ledger.PoolID(m.Pool.UID), m.Exact)
		for _, b := range blocks {
			if err == nil && b.Holder.Claim != d.holder.Claim && promise.Follows(b, d.holder) &&
				promise.Young(b, d.r.clock.Now()) {
				return fmt.Sprintf("; it was answered to a CREATE of this claim that was not stored, and is free at %s",
					b.BoundAt.Add(promise.Grace).UTC().Format(time.TimeOnly))
			}
		}
	}
	return ""
}

// request returns the claim's request to a candidate.
func (d *decision) request(plan resolve.Plan, c resolve.Candidate) ledger.Request {
	return ledger.Request{
		Pool:     plan.Space.In(ledger.PoolID(c.Pool.UID)),
		Begins:   plan.Space.Begins(ledger.PoolID(c.Pool.UID)),
		Holder:   d.holder,
		Length:   c.Length,
		Exact:    c.Exact,
		Strategy: resolve.Strategy(c.Strategy),
		Class:    plan.ClassName,
		Policy:   ledger.ReclaimPolicy(plan.Policy),
		Since:    d.since,
		Limits:   ledger.Limits{Pool: c.Pool.Spec.MaxPerConsumer.Int(), Class: plan.Limit},
	}
}

// unchecked reports whether a pool refused because it was not compared with its IPPool.
func unchecked(err error) bool {
	frozen, ok := errors.AsType[*ledger.FrozenError](err)
	return ok && !frozen.Lost
}
