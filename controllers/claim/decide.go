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

// decision decides which block a claim gets, or why it gets none: by policy, then by the ledger. A reconcile and the
// answer to a CREATE decide by the same code. They differ in the fields holder, since, ask, waits and succeeds. Only a
// CREATE sets the fields begun, dry and imagined.
type decision struct {
	r      *Reconciler
	claim  *ipamv1alpha1.IPClaim
	from   directory.Workspace
	holder ledger.Holder
	since  time.Time // when the claim was created, which orders it among waiting claims
	ask    asks
	waits  waits
	class  string // the class that governs the claim; empty if there is none, or it is not known

	// succeeds reports whether the claim may take over a range from another holder of its name: it may if the claim of
	// that holder cannot exist any more. to is that holder, which has held the range from the time since on.
	succeeds func(ctx context.Context, to ledger.Holder, since time.Time) (bool, error)
	dry      bool        // nothing is to be taken
	begun    bool        // of a CREATE: its turn has come
	imagined ledger.Pool // of a dry run: the last pool that would be made
	held     ledger.Pool // the range that the claim holds by this decision; without an ID: none
}

// tenant returns the tenant of the claim: its workspace, or its namespace where namespaces are the tenants.
func (d *decision) tenant() ledger.ClusterName { return d.from.Cluster.Tenant(d.claim.Namespace) }

// mostAsked limits how many candidates a claim asks for a block, and at how many it waits.
const mostAsked = 64

// asks asks a candidate for a block. Its errors are those of [allocator.Allocator.Bind].
type asks = asksFor[ledger.Block]

// asksFor asks a candidate for a block, or for a pool.
type asksFor[T any] func(context.Context, ledger.Request) (T, error)

// waits are the waits of a claim that gets no block: for topics, and for room in pools.
type waits interface {
	// enter replaces the topics whose change may end the wait. It is called before the catalog is read, so that no change
	// is missed. waits is false if the claim waits for no topics at all, because it is being created.
	enter(topics []topic) (waits bool)
	// nowhere ends all waits for room.
	nowhere()
	// at lets the claim wait for room at the pools of these requests, and at no other pool. It returns false if the claims
	// of the workspace wait at too many pools: then the claim waits at none, and is requeued later.
	at(requests []ledger.Request) bool
	// unchecked is called when a pool was not compared yet with its IPPool. It returns an error if the claim must not
	// report that yet.
	unchecked(r ledger.Request) error
	// anyway requeues the claim after a while. It is called if a change could serve the claim without waking it.
	anyway()
}

// place resolves the claim, and takes a block of the first candidate that has room. A claim that finds no room waits at
// the candidates that it asked; see refuse for the exceptions.
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

// plan resolves the claim. Before that, it lets the claim wait for every topic that may change the plan, and for the
// topics in more.
func (d *decision) plan(ctx context.Context, more ...topic) (resolve.Plan, error) {
	topics := append(topicsOf(d.claim, d.from, d.r.Directory.Platform(), d.r.Directory.Find), more...)
	waits := d.waits.enter(topics)
	plan, err := d.resolve(ctx)
	if waits {
		byDefault := plan.ClassName != "" && d.claim.Spec.ClassName == ""
		above := topicsAbove(d.r.Catalog.View(ctx), plan.ClassName, d.from, d.r.Directory.Platform())
		if err != nil { // perhaps because of a class beside its own, or of another class that its pool names
			above = append(above, topic{kind: defaultTopic})
		}
		if byDefault {
			topics = append(topicsOfDefault(plan.ClassName, d.from, d.r.Directory.Platform()), more...)
		}
		if byDefault || len(above) > 0 { // resolve once more, as the claim now waits for these topics, too
			d.waits.enter(append(topics, above...))
			plan, err = d.resolve(ctx)
		}
	}
	d.claim.Status.Requested = requested(d.claim.Spec, plan)
	return plan, err
}

// resolve applies policy to the catalog, and notes the class of the claim. If the catalog failed, resolve returns the
// error of the catalog, and no refusal.
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

// try binds a block in the first candidate of the plan that has room. It returns errBehind if older claims come first.
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

// need is the request of a decision to its candidates: for the claim's block, or for a pool of its chain.
type need[T any] struct {
	what    string // how an error begins, before the name of the candidate
	plan    resolve.Plan
	request func(resolve.Candidate) ledger.Request
	ask     asksFor[T]
	more    func() error // returns why no further address space may be made; nil: there is no limit
	refuse  func(context.Context, resolve.Plan, []miss) error
}

// draw asks the candidates in turn, until one of them has room. It fails if a derived pool among them is gone: the
// chain has changed.
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
			continue // the catalog is older than the ledger
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

// drawFrom asks one candidate: a pool or, where addresses are unique within the claim's scope, the address space that
// the pool has for the scope. An address space begins with its first block. If it has not begun, n.more may refuse it,
// and a dry run asks the pool instead.
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

// ordered returns the candidates in the order in which they are asked. If the claim's former block cools in one of
// them, that candidate comes first, because the claim gets the block back.
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

// byPlace sorts candidates by of(candidate), lowest first. Candidates with the same number keep their order.
func byPlace(candidates []resolve.Candidate, of func(resolve.Candidate) int) []resolve.Candidate {
	place := make(map[types.UID]int, len(candidates))
	for _, c := range candidates {
		place[c.Pool.UID] = of(c)
	}
	return slices.SortedStableFunc(slices.Values(candidates), func(a, b resolve.Candidate) int {
		return cmp.Compare(place[a.Pool.UID], place[b.Pool.UID])
	})
}

// few returns at most mostAsked candidates to ask: each costs a transaction and a place on a waiting list. If there are
// more, few previews them in memory. First come the pools that would give a block (room that is held for this claim is
// free for it), then the others, and last the pools that exclude the address.
func (d *decision) few(
	ctx context.Context, candidates []resolve.Candidate, request func(resolve.Candidate) ledger.Request,
) []resolve.Candidate {
	if len(candidates) <= mostAsked {
		return candidates
	}
	return byPlace(candidates, func(c resolve.Candidate) int {
		r := request(c)
		if _, known := d.r.Ledger.Pools.Get(r.Pool); !known {
			return 1 // usually an address space that has not begun: a preview would ask the ledger to confirm that
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

// refuse returns why the claim waits. It lets the claim wait for room at the candidates that were tried, and at no
// other pool. It leaves out three kinds of candidates:
//   - a pool that excludes the address: room there does not help, and a change of the pool is one of the claim's
//     topics
//   - a pool that has room and refuses all the same: it would wake the claim at once, again and again
//   - an address space that has not begun: it has no waiting list
//
// The claim is requeued after a while if there is a candidate of the last two kinds, if candidates were not asked, or
// if no pool of a chain was tried. If the claims of the workspace wait at too many pools, the claim waits at none: its
// message says so, and waits.at requeues it.
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

// unstored says when the requested address becomes free, if a CREATE of this name was answered with the address, and
// the claim of that CREATE was not stored. Otherwise unstored returns no text.
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

// unchecked reports whether a pool refused because it was not compared yet with its IPPool.
func unchecked(err error) bool {
	frozen, ok := errors.AsType[*ledger.FrozenError](err)
	return ok && !frozen.Lost
}
