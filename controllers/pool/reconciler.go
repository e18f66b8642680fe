package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
	"github.com/kcp-ipam/ipam/internal/forecast"
)

// Oracle asks the servers whether a pool still exists, and what its spec is.
type Oracle interface {
	Holder(ctx context.Context, h ledger.Holder) (live.Answer, error)
}

// Reconciler keeps pools and ledger in step. It is safe for concurrent use.
type Reconciler struct {
	Options
	clusters catalog.Clusters
	now      func() time.Time
	waiting  waiting
	roots    roots
}

// pass is one reconcile of one pool.
type pass struct {
	*Reconciler
	request mcreconcile.Request
	cluster cluster.Cluster
	owner   directory.Workspace
	pool    *ipamv1alpha1.IPPool
	odd     *outcome.Fault // why the pool cannot be read; nil: it can. The field pool has what is known of it
	id      ledger.PoolID

	samples forecast.Samples // of the used addresses
	due     time.Duration    // until the next reconcile; 0: it waits for a change
	news    func()           // emits the event of a change, once the change is stored; nil: there is none
}

// reporter returns the reporter of the pool.
func (p *pass) reporter() reporter { return reporter{pool: p.pool, cluster: p.cluster} }

// usage returns the usage of the pool. A derived pool counts as a pool of the workspace that it was made for.
func (p *pass) usage() usage {
	of := p.owner.Cluster
	if made, ok := p.Ledger.Pools.Get(p.id); ok && made.Derived != nil {
		of = cmp.Or(made.Derived.Workspace, of)
	}
	return usage{
		ledger: p.Ledger, id: p.id, workspace: of, now: p.now(), answers: p.Answers, again: p.lookAgain, goes: p.Goes,
	}
}

// lookAgain requeues the pool after this time. If several calls are made, the shortest time counts.
func (p *pass) lookAgain(wait time.Duration) {
	if p.due == 0 || wait < p.due {
		p.due = wait
	}
}

// Reconcile reconciles one pool or, without a name, requeues the pools of a workspace that have no CIDR.
func (r *Reconciler) Reconcile(ctx context.Context, req mcreconcile.Request) (reconcile.Result, error) {
	cl, err := r.clusters.GetCluster(ctx, req.ClusterName)
	if err != nil {
		r.abandon(req)
		return reconcile.Result{}, err
	}
	if req.Name == "" {
		r.wakeUnready(ctx, req.ClusterName, cl, r.Queue)
		return reconcile.Result{}, nil
	}
	pool := &ipamv1alpha1.IPPool{}
	err = cl.GetClient().Get(ctx, req.NamespacedName, pool)
	odd, unreadable := errors.AsType[*decode.UnreadableError](err)
	if unreadable {
		pool, err = odd.Object.DeepCopyObject().(*ipamv1alpha1.IPPool), nil
	}
	if err != nil {
		r.abandon(req)
		if r.Directory.Ledger(req.ClusterName) == r.Directory.Platform().Cluster {
			shown.hide(req.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	p := &pass{
		Reconciler: r,
		request:    req,
		cluster:    cl,
		owner:      r.Directory.Workspace(r.Directory.Ledger(req.ClusterName)),
		pool:       pool,
	}
	p.id, _ = catalog.IDOf(r.Ledger.Pools, pool, p.owner.Cluster)
	if unreadable {
		p.odd = &outcome.Fault{Message: odd.Error()}
	}
	err = patch.Reconcile(ctx, cl.GetClient(), pool, p.reconcile)
	if err == nil && p.news != nil {
		p.news()
	}
	result, err := requeueFor(err)
	if err == nil && p.due > 0 {
		r.Queue.AddAfter(req, p.due)
	}
	return result, err
}

// requeueFor tells the queue when to repeat a pass that ended with err.
func requeueFor(err error) (reconcile.Result, error) {
	switch {
	case errors.Is(err, errLost):
		return reconcile.Result{RequeueAfter: lostDelay}, nil
	case errors.Is(err, errStale):
		return reconcile.Result{RequeueAfter: patch.ConflictDelay}, nil
	}
	return patch.Requeue(err)
}

// abandon ends the wait of a child pool, and removes a root pool from roots: the pool is gone or refused, or its
// workspace is no longer engaged.
func (r *Reconciler) abandon(req mcreconcile.Request) {
	r.roots.leave(r.Directory.Ledger(req.ClusterName), req)
	if id, waited := r.waiting.leave(req); waited {
		r.Ledger.Waits.Withdraw(id)
	}
}

// reconcile brings the pool into the ledger, and updates its status. The caller writes the status.
func (p *pass) reconcile(ctx context.Context) error {
	if p.pool.Spec.ClassRef != nil {
		return p.derived(ctx)
	}
	if !p.pool.DeletionTimestamp.IsZero() {
		return p.retire(ctx)
	}
	if p.odd != nil {
		return p.unread(ctx)
	}
	// The finalizer is stored before the ledger knows the pool, or a pool
	// deleted in between would stay registered.
	if controllerutil.AddFinalizer(p.pool, ipamv1alpha1.FinalizerPool) {
		return nil
	}
	if err := p.enter(ctx); err != nil {
		return p.reporter().excuse(ctx, err)
	}
	return p.report(ctx)
}

// enter brings the pool into the ledger, or changes the ledger's pool to what the spec says.
func (p *pass) enter(ctx context.Context) error {
	if err := p.whole(ctx); err != nil {
		return err
	}
	entered, known := p.Ledger.Pools.Get(p.id)
	var err error
	if known && moved(p.pool, entered) {
		known, err = p.leave(ctx)
	}
	if err == nil && !known {
		entered, err = p.join(ctx)
	}
	if err == nil {
		err = p.exclude(ctx, entered)
	}
	if err != nil {
		return err
	}
	p.Ledger.Recovery.Trust(p.id)
	return nil
}

// join brings a new pool into the ledger.
func (p *pass) join(ctx context.Context) (ledger.Pool, error) {
	err := p.counted(ctx)
	if err == nil {
		err = p.confirm(ctx)
	}
	if err != nil {
		return ledger.Pool{}, err
	}
	entered, err := p.place(ctx)
	if err != nil {
		return ledger.Pool{}, err
	}
	log.FromContext(ctx).Info("pool entered", "prefix", entered.CIDR)
	if p.pool.Status.AllocatedCIDR == "" {
		p.reporter().tell(corev1.EventTypeNormal, ipamv1alpha1.ReasonPoolCreated, "holds "+entered.CIDR.String())
	}
	return entered, nil
}

// place gives a new pool its CIDR: its own, or one carved from its parent.
func (p *pass) place(ctx context.Context) (ledger.Pool, error) {
	if p.pool.Spec.Carved() {
		return p.carve(ctx)
	}
	cidr, err := netip.ParsePrefix(string(p.pool.Spec.CIDR))
	if err != nil {
		return ledger.Pool{}, fmt.Errorf("spec.cidr: %w", err)
	}
	entered, err := p.Ledger.Pools.Register(ctx, p.entry(cidr))
	if overlap, ok := errors.AsType[*ledger.OverlapError](err); ok {
		return ledger.Pool{}, &outcome.Refusal{
			Reason: ipamv1alpha1.ReasonOverlap,
			Message: fmt.Sprintf("%s overlaps pool %q (%s); %s",
				cidr, overlap.With.Name, overlap.With.CIDR, besides(cidr, overlap.With)),
		}
	}
	if _, crowded := errors.AsType[*ledger.CrowdedError](err); crowded {
		return ledger.Pool{}, &outcome.Refusal{
			Reason: ipamv1alpha1.ReasonOverlap,
			Message: fmt.Sprintf("address domain %q has %d pools, as many as one may have; "+
				"use another addressDomain, or a CIDR that overlaps no other pool",
				p.pool.Spec.AddressDomain, ledger.MaxSpacePools),
		}
	}
	return entered, err
}

// besides says what to do about a CIDR that overlaps another pool, which may be in use.
func besides(cidr netip.Prefix, other ledger.Pool) string {
	const alone = "use a CIDR of its own, or, while that pool is empty, one addressDomain for both"
	if other.CIDR.Bits() < cidr.Bits() {
		return fmt.Sprintf("create it inside that pool, by spec.parentPoolRef and spec.address in place of spec.cidr; or %s",
			alone)
	}
	return alone
}

// entry returns the pool as the ledger is to have it.
func (p *pass) entry(cidr netip.Prefix) ledger.Pool {
	return ledger.Pool{
		ID: p.id, Cluster: p.owner.Cluster, Name: p.pool.Name, CIDR: cidr,
		Space: catalog.Space(p.pool, p.owner.Cluster),
	}
}

// unread reports that the pool cannot be read, until it is changed. The ledger keeps what it has of the pool, and the
// other pools of its domain do not wait for it. The condition InUse follows the ledger, so that the pool can be deleted
// when it is empty.
func (p *pass) unread(ctx context.Context) error {
	if whole, err := p.Adoption.Whole(ctx, p.id, p.pool.Status); err != nil || !whole {
		return p.reporter().freeze(ctx, cmp.Or(err, errLost))
	}
	p.Ledger.Recovery.Trust(p.id)
	_ = p.reporter().fail(ctx, p.odd)
	return p.reportUse(ctx)
}
