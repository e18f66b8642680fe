package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// turnTime is how much of its time a CREATE waits for an earlier one of the same claim.
	turnTime = 300 * time.Millisecond
	// newcomerTime is how much of it a CREATE waits until its workspace is known, which may have
	// bound the API a moment ago.
	newcomerTime = 500 * time.Millisecond
	// failing is after how long a CREATE that was answered has failed, as a rule, if no server knows its claim.
	failing = 5 * time.Second
)

// limits say how long the ledger may take. A test may wait for longer than a server does.
type limits struct {
	// answer limits how long a CREATE waits for its answer. Without one, the claim is bound a moment later by the
	// reconcile.
	answer time.Duration
	// giveBack limits how long a CREATE that fails waits for the end of its hold of a range.
	giveBack time.Duration
}

// served are the limits in which kcp still waits for the answer.
var served = limits{answer: time.Second, giveBack: 300 * time.Millisecond}

// errNewcomer: the caches do not show the workspace yet.
var errNewcomer = errors.New("the workspace is not known yet")

var _ door.Answerer = (*Reconciler)(nil)

// Answer implements door.Answerer. The leader answers, from its caches and the ledger. A block
// is in the ledger before it is shown, by an ID that the status shows, too.
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
	a, err := r.arrived(ctx, req)
	if err != nil {
		return door.Answer{}, err
	}
	block, err := a.decide(ctx)
	if refusal, refused := errors.AsType[*outcome.Refusal](err); refused {
		r.Answers.Forget(a.holder)
		return a.refused(ctx, refusal), nil
	}
	var pool ipamv1alpha1.PoolRef
	if err == nil {
		pool, err = a.poolRef(block)
	}
	if err == nil {
		err = ctx.Err() // nobody may wait for the answer any more
	}
	if err != nil {
		a.giveBack(ctx)
		return door.Answer{Refuse: a.refuses(ctx)}, err
	}
	succeeded(a.claim, block, pool, a.slot.Name)
	a.claim.Status.Number = a.number(ctx, block, nil)
	record.Date(a.claim.Status.Conditions, block)
	return door.Answer{Status: a.claim.Status, Warning: a.warning(ctx)}, nil
}

// warning warns of a claim for a block by a class that makes ranges: its range may be meant.
func (a *arrival) warning(ctx context.Context) string {
	class := a.governs(ctx)
	if class == nil || len(class.Spec.PoolPer) == 0 || resolve.IsRange(a.claim) {
		return ""
	}
	return fmt.Sprintf("this is a block beside the ranges of class %q, and holds none of them: for the range of this scope, set spec.target to ScopeRange", class.Name)
}

// governs returns the class of the claim; nil if it has none, or it is not known.
func (a *arrival) governs(ctx context.Context) (class *ipamv1alpha1.IPClass) {
	if a.class != "" {
		class, _ = a.Catalog.View(ctx).Class(a.class)
	}
	return class
}

// giveBack ends the hold of a range by a CREATE that fails now, so that the next one is answered at once. A block is
// freed by the hint of [promise.Answers].
func (a *arrival) giveBack(ctx context.Context) {
	if a.dry {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.limits.giveBack)
	defer cancel()
	if err := a.drop(ctx); err != nil {
		log.FromContext(ctx).Info("the hold of a CREATE that fails has not ended yet", "pool", a.held.Name, "why", err.Error())
	}
	a.Answers.Fail(a.holder)
}

// arrival is a claim that is being created.
type arrival struct {
	decision
	slot  record.Slot
	there bool // the cache shows a claim of this name
	comes bool // the claim gets its block by its reconcile, for certain
}

// arrived is arriving, once the workspace is known.
func (r *Reconciler) arrived(ctx context.Context, req door.Request) (a *arrival, err error) {
	if a, err = r.arriving(ctx, req); !errors.Is(err, errNewcomer) {
		return a, err
	}
	_ = door.Sleep(ctx, req.Cluster.Tenant(req.Claim.Namespace), func(ctx context.Context) error {
		return poll.PollUntilContextTimeout(ctx, newcomerTime/20, newcomerTime, false, func(ctx context.Context) (bool, error) {
			a, err = r.arriving(ctx, req)
			return !errors.Is(err, errNewcomer), nil
		})
	})
	return a, err
}

// arriving reads what there is of the claim's name. It fails while it is not known what
// the claim's workspace may use.
func (r *Reconciler) arriving(ctx context.Context, req door.Request) (*arrival, error) {
	from, cache, err := r.workspaceOf(ctx, req.Cluster)
	if err != nil {
		return nil, err
	}
	a := &arrival{decision: decision{
		Reconciler: r, from: from, since: time.Now(), ask: compared(r.Compare, r.Ledger.Blocks.Bind), waits: nothing{}, dry: req.DryRun,
		succeeds: r.failed,
	}}
	if req.DryRun {
		a.ask = compared(r.Compare, preview(r.Ledger))
	}
	a.claim = req.Claim.DeepCopy()
	a.claim.Status = ipamv1alpha1.IPClaimStatus{}
	a.claim.Generation = 1
	a.holder = ledger.Holder{Cluster: from.Cluster, Namespace: a.claim.Namespace, Name: a.claim.Name}
	a.holder.Claim = promise.NewID(a.holder.Cluster, a.holder.Namespace, a.holder.Name)
	return a, a.lookUp(ctx, cache)
}

// failed reports whether the CREATE of a holder seems to have failed, which came then. Should it succeed all the same,
// that of the next claim of its name fails, and the reconcile of the first one takes its range back.
func (r *Reconciler) failed(ctx context.Context, of ledger.Holder, since time.Time) (bool, error) {
	if r.clock.Since(since) < failing {
		return false, nil
	}
	return r.Releases.Gone(ctx, of)
}

// workspaceOf returns the workspace of a CREATE, and its cache. It fails while it is not known what that may use. One
// that shows the path of another is known to have none: no list admits it by path, and all else serves it.
func (r *Reconciler) workspaceOf(ctx context.Context, name ledger.ClusterName) (from directory.Workspace, cache client.Reader, err error) {
	from = r.Directory.Workspace(name)
	if from.Path == "" && !r.Directory.Contests(name) {
		return from, nil, fmt.Errorf("%w: the path of %s", errNewcomer, name)
	}
	if r.Directory.Leaves(name) {
		return from, nil, fmt.Errorf("workspace %s gives up the export", name)
	}
	cl, err := r.Catalog.Clusters.GetCluster(ctx, r.Directory.Engaged(name)) // answered before it is engaged, too
	if errors.Is(err, multicluster.ErrClusterNotFound) {
		err = fmt.Errorf("%w: %w", errNewcomer, err)
	}
	if err != nil {
		return from, nil, err
	}
	return from, cl.GetCache(), nil
}

// lookUp looks for a claim of the name, and for its record. A range has no record that tells of a former claim; so a
// server is asked whether the cache lags.
func (a *arrival) lookUp(ctx context.Context, cache client.Reader) error {
	name, former := client.ObjectKeyFromObject(a.claim), &ipamv1alpha1.IPClaim{}
	err := cache.Get(ctx, name, former)
	if a.there = err == nil; err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read claim %s: %w", name, err)
	}
	if !resolve.IsRange(a.claim) {
		a.slot, err = record.Find(ctx, cache, name)
		return err
	}
	if !a.there {
		return nil
	}
	gone, err := a.Releases.Gone(ctx, promise.HolderOf(a.from.Cluster, former))
	a.there = !gone
	return err
}

// poolRef names the pool of a block as the claim's workspace sees it, also one that would be made.
func (a *arrival) poolRef(block ledger.Block) (ipamv1alpha1.PoolRef, error) {
	names := naming{pools: a.Ledger.Pools, directory: a.Directory, from: a.from.Cluster}
	if a.imagined.ID == block.Pool {
		return names.ref(a.imagined)
	}
	return names.poolOf(block)
}

// decide takes a block for the claim, or says why it gets none.
func (a *arrival) decide(ctx context.Context) (ledger.Block, error) {
	switch former := a.slot.Record; {
	case a.there:
		// The CREATE fails, and nothing is taken for it. Should the cache be stale, it succeeds:
		// so the block of the former claim must not be shown.
		return ledger.Block{}, &outcome.Refusal{Reason: ipamv1alpha1.ReasonError, Message: "there was a claim of this name a moment ago; trying again"}
	case former == nil:
		if kept, ok, err := a.left(ctx, a.holder); ok || err != nil {
			return ledger.Block{}, cmp.Or(err, stillHolds(kept.Prefix.String()))
		}
		return a.take(ctx)
	case former.Spec.ClaimRef != nil:
		return ledger.Block{}, stillHolds(former.Status.AllocatedCIDR)
	}
	return a.reuse(ctx)
}

// take takes a block, and notes that before, as it may be taken when nobody waits for it any more.
func (a *arrival) take(ctx context.Context) (ledger.Block, error) {
	if a.dry {
		return a.place(ctx)
	}
	err := a.Answers.Begin(a.holder)
	if errors.Is(err, promise.ErrTurn) {
		_ = door.Sleep(ctx, a.tenant(), func(ctx context.Context) error {
			return poll.PollUntilContextTimeout(ctx, turnTime/30, turnTime, false, func(context.Context) (bool, error) {
				err = a.Answers.Begin(a.holder)
				return !errors.Is(err, promise.ErrTurn), nil
			})
		})
	}
	if err != nil {
		return ledger.Block{}, err
	}
	return a.place(ctx)
}

// refused answers a claim that gets no block now.
func (a *arrival) refused(ctx context.Context, refusal *outcome.Refusal) door.Answer {
	refused(a.claim, refusal)
	a.claim.Status.Phase = ipamv1alpha1.ClaimPending
	return door.Answer{Status: a.claim.Status, Refuse: a.refuses(ctx), Pool: refusal.Pool, Roles: refusal.Roles, Warning: a.warning(ctx)}
}

// refuses reports whether the claim is not to be stored without a block.
func (a *arrival) refuses(ctx context.Context) bool {
	if a.there || a.comes {
		return false
	}
	return resolve.Unmet(a.claim, a.governs(ctx), a.Unmet) == ipamv1alpha1.UnmetRefuse
}

// compared asks a candidate, and compares it with what is published if that was not done yet: a new
// leader answers before its controllers have seen every pool.
func compared[T any](compare func(context.Context, ledger.PoolID) (bool, error), ask asksFor[T]) asksFor[T] {
	return func(ctx context.Context, req ledger.Request) (T, error) {
		got, err := ask(ctx, req)
		if !unchecked(err) {
			return got, err
		}
		of := req.Pool
		if req.Begins != nil { // it is compared with its pool
			of = req.Begins.Of
		}
		if whole, compareErr := compare(ctx, of); compareErr != nil || !whole {
			return got, cmp.Or(compareErr, err)
		}
		return ask(ctx, req)
	}
}

// preview asks a candidate which block it would give, and takes nothing.
func preview(in views.Ledger) asks {
	return func(ctx context.Context, req ledger.Request) (ledger.Block, error) {
		prefix, err := in.Blocks.Preview(ctx, req)
		return ledger.Block{
			Prefix: prefix, Pool: req.Pool, Holder: req.Holder, Class: req.Class, Policy: req.Policy, BoundAt: time.Now(),
		}, err
	}
}

// nothing is what a claim waits for that is being created: its reconcile does the waiting.
type nothing struct{}

func (nothing) enter([]topic) bool             { return false }
func (nothing) nowhere()                       {}
func (nothing) at([]ledger.Request) bool       { return true }
func (nothing) anyway()                        {}
func (nothing) unchecked(ledger.Request) error { return errUnchecked }
