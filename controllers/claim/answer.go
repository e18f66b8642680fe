package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	poll "k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
)

const (
	// turnTime is how long a CREATE waits for another CREATE: an earlier CREATE of its name, or a CREATE that was just
	// answered with the range that both ask for.
	turnTime = 300 * time.Millisecond
	// newcomerTime is how long a CREATE waits until its workspace is known. The workspace may have bound the API a moment
	// ago.
	newcomerTime = 500 * time.Millisecond
	// failing is the age at which an answered CREATE has usually failed, if no server knows its claim.
	failing = 5 * time.Second
)

// limits are the times that an answer may take. Tests set limits that are longer than a server waits.
type limits struct {
	// answer limits how long a CREATE waits for its answer. A claim without an answer is bound a moment later, by its
	// reconcile.
	answer time.Duration
	// giveBack limits how long a failing CREATE waits until it no longer holds a range.
	giveBack time.Duration
}

// served are the limits of a running controller. kcp waits longer than that for an answer.
var served = limits{answer: time.Second, giveBack: 300 * time.Millisecond}

// errNewcomer: the caches do not show the workspace yet.
var errNewcomer = errors.New("the workspace is not known yet")

var _ door.Answerer = (*Reconciler)(nil)

// Answer implements door.Answerer. The leader answers, from its caches and the ledger. The block in an answer is in the
// ledger already, under the allocation ID in the answer. The error is door.ErrEarly while a former claim, or an earlier
// CREATE of the name, is not settled.
func (r *Reconciler) Answer(ctx context.Context, req door.Request) (door.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, r.limits.answer)
	defer cancel()
	ctx, end := r.span(ctx, req)
	answer, err := r.answer(ctx, req)
	if errors.Is(err, errFormer) || errors.Is(err, promise.ErrTurn) {
		err = fmt.Errorf("%w: %w", door.ErrEarly, err)
	}
	end(answer, err)
	return answer, err
}

func (r *Reconciler) answer(ctx context.Context, req door.Request) (door.Answer, error) {
	if err := r.Sees(); err != nil {
		return door.Answer{}, err
	}
	p, err := r.arrived(ctx, req)
	if err != nil {
		return door.Answer{}, err
	}
	err = p.settle(ctx)
	d := &p.decision
	if refusal, refused := errors.AsType[*outcome.Refusal](err); refused {
		r.Answers.Forget(d.holder)
		return p.refused(ctx, refusal), nil
	}
	var pool ipamv1alpha1.PoolRef
	switch {
	case err != nil:
	case d.imagined.ID == p.block.Pool: // it would be made
		pool, err = r.refer(d.imagined, d.from.Cluster)
	default:
		pool, err = r.poolOf(p.block, d.from.Cluster)
	}
	if err == nil {
		err = ctx.Err() // perhaps nobody waits for the answer any more
	}
	if err != nil {
		d.giveBack(ctx)
		return door.Answer{Refuse: p.refuses(ctx)}, err
	}
	succeeded(p.claim, p.block, pool, p.slot.Name)
	p.claim.Status.Number = r.number(ctx, p.block, nil)
	record.Date(p.claim.Status.Conditions, p.block)
	return door.Answer{Status: p.claim.Status, Warning: d.warning(ctx)}, nil
}

// warning returns a warning if the claim asks for a block although its class makes ranges: the user may have meant the
// range. For any other claim it is empty.
func (d *decision) warning(ctx context.Context) string {
	class := d.governs(ctx)
	if class == nil || len(class.Spec.PoolPer) == 0 || resolve.IsRange(d.claim) {
		return ""
	}
	return fmt.Sprintf("this is a block beside the ranges of class %q, and holds none of them: "+
		"for the range of this scope, set spec.target to ScopeRange", class.Name)
}

// governs returns the class of the claim, or nil if the claim has none or its class is not known.
func (d *decision) governs(ctx context.Context) (class *ipamv1alpha1.IPClass) {
	if d.class != "" {
		class, _ = d.r.Catalog.View(ctx).Class(d.class)
	}
	return class
}

// giveBack ends what a failing CREATE holds. The hold of a range ends now, so that the next CREATE is answered at once.
// A block is freed later, by the hint of [promise.Answers]. A dry run holds nothing.
func (d *decision) giveBack(ctx context.Context) {
	if d.dry {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.r.limits.giveBack)
	defer cancel()
	if err := d.drop(ctx); err != nil {
		log.FromContext(ctx).Info("the hold of a CREATE that fails has not ended yet", "pool", d.held.Name,
			"why", err.Error())
	}
	d.r.Answers.Fail(d.holder)
}

// arrived calls arriving until the workspace is known, for newcomerTime at most.
func (r *Reconciler) arrived(ctx context.Context, req door.Request) (p *pass, err error) {
	err = inTime(ctx, req.Cluster.Tenant(req.Claim.Namespace), newcomerTime, errNewcomer, func() error {
		p, err = r.arriving(ctx, req)
		return err
	})
	return p, err
}

// inTime repeats try while it returns the error that the parameter passing names, and no longer than the duration
// within. It returns the last error of try.
func inTime(
	ctx context.Context, tenant ledger.ClusterName, within time.Duration, passing error, try func() error,
) error {
	err := try()
	if !errors.Is(err, passing) {
		return err
	}
	_ = door.Sleep(ctx, tenant, func(ctx context.Context) error {
		return poll.PollUntilContextTimeout(ctx, within/20, within, false, func(context.Context) (bool, error) {
			err = try()
			return !errors.Is(err, passing), nil
		})
	})
	return err
}

// arriving begins the pass of a CREATE. It reads whether the cache shows a claim of the name, and fails while the
// claim's workspace is not known.
func (r *Reconciler) arriving(ctx context.Context, req door.Request) (*pass, error) {
	from, cache, err := r.workspaceOf(ctx, req.Cluster)
	if err != nil {
		return nil, err
	}
	p := &pass{r: r, claim: req.Claim.DeepCopy(), cache: cache}
	p.claim.Status = ipamv1alpha1.IPClaimStatus{}
	p.claim.Generation = 1
	p.slot.claim = p.claim
	p.decision = decision{
		r: r, claim: p.claim, from: from, since: time.Now(), ask: compared(r.Compare, r.Ledger.Blocks.Bind),
		waits: nothing{}, dry: req.DryRun,
		succeeds: r.failed,
		holder:   ledger.Holder{Cluster: from.Cluster, Namespace: p.claim.Namespace, Name: p.claim.Name},
	}
	p.decision.holder.Claim = promise.NewID(from.Cluster, p.claim.Namespace, p.claim.Name)
	if req.DryRun {
		p.decision.ask = compared(r.Compare, preview(r.Ledger))
	}
	return p, p.asCreated(ctx)
}

// failed reports whether the CREATE of a holder seems to have failed. since is when that CREATE came. If its claim is
// stored after all, the CREATE of the next claim of the name fails, and the reconcile of the stored claim takes the
// range back.
func (r *Reconciler) failed(ctx context.Context, of ledger.Holder, since time.Time) (bool, error) {
	if r.clock.Since(since) < failing {
		return false, nil
	}
	return r.Releases.Gone(ctx, of)
}

// workspaceOf returns the workspace of a CREATE, and its cache. It fails while the path of the workspace is not known,
// or while the workspace gives up the export. A workspace that shows the path of another workspace is served without a
// path, so that no list admits it by path.
func (r *Reconciler) workspaceOf(
	ctx context.Context, name ledger.ClusterName,
) (from directory.Workspace, cache client.Reader, err error) {
	from = r.Directory.Workspace(name)
	if from.Path == "" && !r.Directory.Contests(name) {
		return from, nil, fmt.Errorf("%w: the path of %s", errNewcomer, name)
	}
	if r.Directory.Leaves(name) {
		return from, nil, fmt.Errorf("workspace %s gives up the export", name)
	}
	cl, err := r.Catalog.Clusters.GetCluster(ctx, r.Directory.Engaged(name)) // perhaps before the workspace is engaged
	if errors.Is(err, multicluster.ErrClusterNotFound) {
		err = fmt.Errorf("%w: %w", errNewcomer, err)
	}
	if err != nil {
		return from, nil, err
	}
	return from, cl.GetCache(), nil
}

// begin waits until an earlier CREATE of the name is settled, and then notes in Answers that this CREATE is about to
// take a block: the transaction may commit after the CREATE has timed out. A dry run notes nothing.
func (d *decision) begin(ctx context.Context) error {
	d.begun = true
	if d.dry {
		return nil
	}
	return inTime(ctx, d.tenant(), turnTime, promise.ErrTurn, func() error { return d.r.Answers.Begin(d.holder) })
}

// refused returns the answer to the CREATE of a claim that gets no block now.
func (p *pass) refused(ctx context.Context, refusal *outcome.Refusal) door.Answer {
	refused(p.claim, refusal)
	p.claim.Status.Phase = ipamv1alpha1.ClaimPending
	return door.Answer{
		Status: p.claim.Status, Refuse: p.refuses(ctx), Pool: refusal.Pool, Roles: refusal.Roles,
		Warning: p.decision.warning(ctx),
	}
}

// refuses reports whether the API server must not store the claim without a block. It is false for a claim that its
// reconcile will serve in a moment.
func (p *pass) refuses(ctx context.Context) bool {
	return p.does != later && resolve.Unmet(p.claim, p.decision.governs(ctx), p.r.Unmet) == ipamv1alpha1.UnmetRefuse
}

// compared returns ask with one more attempt. If a pool refuses because it was not compared yet, the pool is compared
// with its published records, and asked again. A new leader needs this: it answers before its controllers have seen
// every pool.
func compared[T any](compare func(context.Context, ledger.PoolID) (bool, error), ask asksFor[T]) asksFor[T] {
	return func(ctx context.Context, req ledger.Request) (T, error) {
		got, err := ask(ctx, req)
		if !unchecked(err) {
			return got, err
		}
		of := req.Pool
		if req.Begins != nil { // the address space is compared with its pool
			of = req.Begins.Of
		}
		if whole, compareErr := compare(ctx, of); compareErr != nil || !whole {
			return got, cmp.Or(compareErr, err)
		}
		return ask(ctx, req)
	}
}

// preview returns a function that asks a candidate which block it would give, and takes nothing.
func preview(in views.Ledger) asks {
	return func(ctx context.Context, req ledger.Request) (ledger.Block, error) {
		prefix, err := in.Blocks.Preview(ctx, req)
		return ledger.Block{
			Prefix: prefix, Pool: req.Pool, Holder: req.Holder, Class: req.Class, Policy: req.Policy, BoundAt: time.Now(),
		}, err
	}
}

// nothing is the waits of a claim that is being created. Its methods do nothing, because the claim waits from its
// reconcile on.
type nothing struct{}

func (nothing) enter([]topic) bool             { return false }
func (nothing) nowhere()                       {}
func (nothing) at([]ledger.Request) bool       { return true }
func (nothing) anyway()                        {}
func (nothing) unchecked(ledger.Request) error { return errUnchecked }
