package claim

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
	"github.com/kcp-ipam/ipam/controllers/internal/source"
)

// Ranges publishes and retires the pools that the system makes for claims.
type Ranges interface {
	// Publish makes the IPPool of a pool, unless it exists.
	Publish(ctx context.Context, pool ledger.Pool) error
	// Announce asks for the IPPools of pools, which are made a moment later. It does not block.
	Announce(pools ...ledger.Pool)
	// Complete retires a pool that is being released, if the claim that held it is gone. open reports whether the pool is
	// no longer being released: it is retired, or open again.
	Complete(ctx context.Context, id ledger.PoolID) (open bool, err error)
	// Replace retires an unused pool, and the pools below it, so that another pool can be made in its place. It fails with
	// ledger.ErrPoolInUse or ledger.ErrChanged if one of the pools has come into use.
	Replace(ctx context.Context, pool ledger.Pool) error
}

// Releases settles the blocks and ranges that claims leave behind. See package release.
type Releases interface {
	Deleted(h ledger.Holder, last *ipamv1alpha1.IPClaim, record *ipamv1alpha1.IPAllocation)
	Missed(h ledger.Holder, last *ipamv1alpha1.IPClaim)
	Suspect(h ledger.Holder)
	Settle(ctx context.Context, h ledger.Holder) (bool, error)
	SettleWitnessed(ctx context.Context, h ledger.Holder) (bool, error)
	Gone(ctx context.Context, h ledger.Holder) (bool, error)
	Alive(ctx context.Context, h ledger.Holder) (*ipamv1alpha1.IPClaim, error)
	Published(ctx context.Context, h ledger.Holder) (claim *ipamv1alpha1.IPClaim, recorded bool, err error)
}

// Reconciler binds claims. It is safe for concurrent use.
type Reconciler struct {
	Options
	clusters  catalog.Clusters
	clock     clock.PassiveClock
	waiting   waiting
	announced announced
	started   func() time.Time // when a claim first met a pool that was not compared yet
	memory    memory           // facts about claims that the cache does not show yet
	formers   formers          // claims that were bound or deleted a moment ago
	taking    sync.Mutex       // held by the one pass that proves a block to be forged
	maker     record.Maker
	limits    limits
}

// Reconcile reconciles one claim or, without a name, requeues the claims of a workspace.
func (r *Reconciler) Reconcile(ctx context.Context, req mcreconcile.Request) (reconcile.Result, error) {
	if req.Name == "" {
		return reconcile.Result{}, r.requeueAll(ctx, req.ClusterName)
	}
	r.waiting.begin(req)
	r.memory.begin(req)
	err := r.look(ctx, req)
	r.memory.end(req)
	if parked := r.end(req, errors.Is(err, errBehind)); parked {
		return reconcile.Result{}, nil
	}
	return requeueFor(err)
}

// look runs one pass over a claim, if the caches show it.
func (r *Reconciler) look(ctx context.Context, req mcreconcile.Request) error {
	cl, err := r.clusters.GetCluster(ctx, req.ClusterName)
	if err != nil {
		r.abandon(req)
		return err
	}
	claim := &ipamv1alpha1.IPClaim{}
	if err := cl.GetClient().Get(ctx, req.NamespacedName, claim); err != nil {
		r.abandon(req)
		if source.Tell(cl, err) {
			return nil
		}
		return client.IgnoreNotFound(err)
	}
	if next, ok := r.waiting.made(req, claim.CreationTimestamp.Time); ok {
		r.Queue.Add(next)
	}
	// The pass of a former claim may have entered the ledger's waiting lists after that claim was seen deleted.
	if former, waited := r.waiting.replaced(req, claim.UID); waited {
		r.Ledger.Waits.Withdraw(ledger.ClaimID(former))
	}
	if r.memory.outdated(claim.UID, claim.ResourceVersion) {
		return errWritten
	}
	return r.stored(req, cl, claim).run(ctx)
}

// stored begins a pass over a stored claim.
func (r *Reconciler) stored(req mcreconcile.Request, cl cluster.Cluster, claim *ipamv1alpha1.IPClaim) *pass {
	from := r.Directory.Workspace(r.Directory.Ledger(req.ClusterName))
	p := &pass{
		r: r, claim: claim, cache: cl.GetClient(), waits: r.waiter(req, claim),
		slot:   slot{claim: claim, cluster: from.Cluster, client: cl.GetClient(), maker: &r.maker, memory: &r.memory},
		report: report{request: req, claim: claim, cluster: cl, memory: &r.memory, clock: r.clock},
	}
	p.decision = decision{
		r: r, claim: claim, from: from, holder: promise.HolderOf(from.Cluster, claim), since: claim.CreationTimestamp.Time,
		ask: p.ask, waits: p.waits, succeeds: p.succeeds,
	}
	p.asStored()
	return p
}

// run reconciles the claim, writes its status, and reports how the pass has ended.
func (p *pass) run(ctx context.Context) error {
	begun, read, before := time.Now(), p.claim.ResourceVersion, patch.Snapshot(p.claim)
	err := p.reconcile(ctx)
	traced, end := step(ctx, "patch status")
	patchErr := before.Patch(traced, p.slot.client, p.claim)
	end(patchErr)
	if patchErr != nil {
		err = errors.Join(err, patchErr)
	} else if p.claim.ResourceVersion != read {
		p.r.memory.wrote(p.claim.UID, read)
	}
	p.report.measure(begun, err)
	p.report.tellSpan(ctx, err)
	denied := apierrors.IsNotFound(err)
	if denied {
		// The claim was deleted meanwhile, as the cache shows or will show. But kcp gives the same answer for an existing
		// claim while it moves the workspace to another schema; and a kcp that was restored from an older copy gives it for a
		// claim that it never knew. So the claim is requeued.
		p.r.memory.markGone(p.claim.UID)
	}
	// The block or range of a claim that is deleted during the pass may have been bound after the release looked for it.
	// So the release gets another hint. The hint has the claim as last seen, without the changes of this pass that were
	// not written.
	gone := p.r.forgetDeleted(ctx, p.slot.client, p.claim)
	if last := p.r.memory.deletion(p.waits.request, p.claim.UID); last != nil {
		p.r.Releases.Deleted(p.holder(), last, nil)
	} else if gone && denied {
		p.r.Releases.Missed(p.holder(), before.Was().(*ipamv1alpha1.IPClaim))
	}
	return err
}

// forgetDeleted forgets a claim that was deleted during its pass, and reports whether it did so. The event of a
// deletion forgets the claim, too, but the pass may have noted something after that. A cache drops an object before it
// delivers the event. So a claim that the cache still shows will be forgotten by its event.
func (r *Reconciler) forgetDeleted(ctx context.Context, cache client.Reader, claim *ipamv1alpha1.IPClaim) (gone bool) {
	if r.memory.of(claim.UID) == (memo{}) {
		return false
	}
	if gone = apierrors.IsNotFound(shown(ctx, cache, claim)); gone {
		r.memory.forget(claim.UID)
	}
	return gone
}

// shown returns nil if a cache shows the claim now. The error is NotFound if the cache shows no claim with this UID.
func shown(ctx context.Context, cache client.Reader, claim *ipamv1alpha1.IPClaim) error {
	now := &ipamv1alpha1.IPClaim{}
	err := cache.Get(ctx, client.ObjectKeyFromObject(claim), now)
	if err == nil && now.UID != claim.UID {
		return apierrors.NewNotFound(ipamv1alpha1.GroupVersion.WithResource("ipclaims").GroupResource(), claim.Name)
	}
	return err
}

// requeueFor tells the queue when to repeat a pass that ended with err.
func requeueFor(err error) (reconcile.Result, error) {
	var after time.Duration
	barred, isBarred := errors.AsType[*record.BarredError](err)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause): // the claim goes with its namespace
	case errors.Is(err, errGone):
		after = missedDelay
	case errors.Is(err, errWritten):
		after = cacheLag
	case apierrors.IsNotFound(err), errors.Is(err, errUnchecked), errors.Is(err, errFormer), errors.Is(err, errUnsure):
		after = goneDelay // an event may wake the claim before
	case errors.Is(err, errUnseen), errors.Is(err, errBehind):
		after = patch.ConflictDelay
	case isBarred && !apierrors.IsConflict(err):
		after = barred.After
	default:
		return patch.Requeue(err)
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// abandon cancels the waits of a claim that the caches do not show: it is gone, or its workspace is no longer engaged,
// so that its deletion may not be seen. When a workspace is engaged again, all its claims are reconciled.
func (r *Reconciler) abandon(req mcreconcile.Request) {
	unmet.remove(req)
	if uid, waited := r.waiting.leave(req); waited {
		r.Ledger.Waits.Withdraw(ledger.ClaimID(uid))
	}
}

// reconcile settles the claim, and turns a refusal or a fault into its status. The caller writes the status.
func (p *pass) reconcile(ctx context.Context) error {
	err := p.settle(ctx)
	switch refusal, refused := errors.AsType[*outcome.Refusal](err); {
	case refused:
		p.report.refuse(ctx, refusal)
		err = nil
	case err == nil, p.does == findRecord, p.does == confirm, p.does == publish, p.facts.being == deleted:
	default:
		err = p.report.unmet(ctx, err)
	}
	if p.facts.being == deleted { // a finalizer may keep it for ever, and with it a workspace that gives up the export
		p.waits.leave()
		p.claim.Status.Phase = ipamv1alpha1.ClaimReleasing
	}
	return err
}

// errUnchecked: the pool has not been compared with the published records yet.
var errUnchecked = errors.New("the pool was not compared with the published records yet")

// errWritten: the event of our own write is on its way.
var errWritten = errors.New("the cache does not show the last write of the claim yet")

// errUnseen: the server has a record that the cache does not show yet.
var errUnseen = errors.New("the cache does not show the IPAllocation yet")
