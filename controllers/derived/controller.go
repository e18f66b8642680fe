package derived

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
)

const (
	// interval is the time between two sweeps over all pools in memory.
	interval = 5 * time.Second
	// stray is the age at which an IPPool with neither a status nor a pool in the ledger is deleted.
	stray = time.Minute
	// leftIdle limits how long an idle pool stays if its workspace is bound nowhere.
	leftIdle = 10 * time.Second
)

// DefaultIdle is how long a pool is idle until it is retired, by default.
const DefaultIdle = 10 * time.Minute

// Options configure a Controller. All fields but Idle are required.
type Options struct {
	*Closer
	// News are the requests that the Controller reconciles.
	*News
	// Idle is how long a pool is unused until it is retired. 0: it stays, unless its workspace is bound nowhere.
	Idle time.Duration
	// Bound reports whether the caches show a workspace as bound.
	Bound func(ledger.ClusterName) bool
}

// Controller keeps IPPools and ledger in step, and retires pools that nobody uses. A manager runs it, on the leader. It
// is safe for concurrent use.
type Controller struct {
	Options

	mu   sync.Mutex
	idle map[ledger.PoolID]idleness
}

// idleness says since when a pool is idle, and how many changes of its space there had been at that time.
type idleness struct {
	since   time.Time
	changes int64
}

// New makes a Controller that mgr runs.
func New(mgr manager.Manager, opts Options) (*Controller, error) {
	c := newController(opts)
	options := inbox.Controlled(mgr.GetLogger(), c.queue, 8, func(req request) []any {
		return []any{"cluster", req.cluster, "pool", req.name}
	})
	options.Reconciler = c
	_, err := controller.NewTyped("derived", mgr, options)
	return c, errors.Join(err, mgr.Add(c))
}

func newController(opts Options) *Controller {
	return &Controller{Options: opts, idle: map[ledger.PoolID]idleness{}}
}

var _ manager.LeaderElectionRunnable = (*Controller)(nil)

// NeedLeaderElection returns true: only the leader keeps the IPPools in step.
func (c *Controller) NeedLeaderElection() bool { return true }

// Start sweeps over all pools from time to time, until the context ends.
func (c *Controller) Start(ctx context.Context) error {
	wait.JitterUntilWithContext(ctx, c.sweep, interval, 0.2, true)
	return nil
}

// sweep queues the pools that need a reconcile: closed or idle for too long, or without an IPPool. It reads memory
// alone.
func (c *Controller) sweep(ctx context.Context) {
	there := map[ledger.PoolID]bool{}
	for p := range c.Ranges.All() {
		if ledger.IsAddressSpace(p.ID) {
			continue // an address space goes with its last block
		}
		there[p.ID] = true
		c.watch(p)
		if c.due(ctx, p) {
			c.queue.Add(request{p.ID, p.Cluster, p.Name})
		}
	}
	c.forget()
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.idle, func(id ledger.PoolID, _ idleness) bool { return !there[id] })
}

func (c *Controller) due(ctx context.Context, p ledger.Pool) bool {
	if p.Closed() {
		return p.Derived.Holder.Claim == "" || c.Clock.Now().After(p.Closing.Until)
	}
	return c.old(p) || c.Bound(p.Cluster) && !c.shown(ctx, p)
}

// shown reports whether the cache shows the IPPool of a pool. It is true, too, if the workspace has no cache: no IPPool
// can be made there now.
func (c *Controller) shown(ctx context.Context, p ledger.Pool) bool {
	cl, err := c.Catalog.Clusters.GetCluster(ctx, c.Catalog.Directory.Engaged(p.Cluster))
	return err != nil || c.shows(ctx, cl.GetCache(), p) == ours
}

// watch notes since when a pool is idle. If the space of the pool has changed since the last call, the pool was used in
// between, and its idle time begins again.
func (c *Controller) watch(p ledger.Pool) {
	idle, changes := catalog.Idle(c.Ledger.Pools, c.Ranges, p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, ok := c.idle[p.ID]; !idle {
		delete(c.idle, p.ID)
	} else if !ok || before.changes != changes {
		c.idle[p.ID] = idleness{c.Clock.Now(), changes}
	}
}

// old reports whether a pool is idle for long enough to be retired. A pool whose range claim is gone is retired as soon
// as it is idle, as the claim's DELETE would have done. When a namespace is deleted, that DELETE is allowed although
// claims are still inside.
func (c *Controller) old(p ledger.Pool) bool {
	c.mu.Lock()
	seen, ok := c.idle[p.ID]
	c.mu.Unlock()
	switch idle, _ := catalog.Idle(c.Ledger.Pools, c.Ranges, p); {
	case !idle:
		return false
	case c.wasDropped(p):
		return true
	case !ok:
		return false
	}
	after, never := c.stays(p)
	return !never && c.Clock.Since(seen.since) >= after
}

// stays returns how long an idle pool stays. never is true if the pool stays however long it is idle. If the workspace
// of the pool is no longer bound, the pool stays for leftIdle at most.
func (c *Controller) stays(p ledger.Pool) (after time.Duration, never bool) {
	if of := p.Derived.Workspace.Cluster(); of != "" && (c.Departed(of) || !c.Bound(of) && !c.Catalog.MayBeBound(of)) {
		return min(max(c.Idle, time.Nanosecond), leftIdle), false
	}
	return c.Idle, c.Idle == 0
}

// Seen queues the pool of an IPPool that was created (before is nil) or deleted (after is nil) in a workspace. It
// ignores a change of an IPPool. It does not block.
func (c *Controller) Seen(in ledger.ClusterName, before, after *ipamv1alpha1.IPPool) {
	object := cmp.Or(after, before)
	if before != nil && after != nil || object.Spec.ClassRef == nil {
		return
	}
	for _, id := range catalog.DerivedIDs(object, in) {
		if after == nil {
			c.published.drop(id)
		}
		c.queue.Add(request{id, in, object.Name})
	}
}

// Left notes that a workspace is no longer bound: kcp deletes the IPPools there. It does not block.
func (c *Controller) Left(cluster ledger.ClusterName) { c.published.leave(cluster) }

// Reconcile makes the next move of a pool. If the pool is gone, Reconcile deletes the IPPool that is left over: see
// clear.
func (c *Controller) Reconcile(ctx context.Context, req request) (reconcile.Result, error) {
	p, known := c.Ledger.Pools.Get(req.id)
	if !known || p.Cluster != req.cluster || p.Name != req.name {
		return c.clear(ctx, req)
	}
	does, err := c.step(ctx, p, facts{shown: !c.Bound(p.Cluster) || c.shown(ctx, p), old: c.old(p)})
	if err != nil || does != waits {
		return reconcile.Result{}, err
	}
	if left := p.Closing.Until.Sub(c.Clock.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	return reconcile.Result{RequeueAfter: interval}, nil
}

// clear deletes the IPPool of a derived pool that is not in the ledger. If the IPPool shows a CIDR, and the pool was
// not retired, the ledger has lost the pool, and the IPPool stays.
func (c *Controller) clear(ctx context.Context, req request) (reconcile.Result, error) {
	gone := ledger.Pool{ID: req.id, Cluster: req.cluster, Name: req.name}
	object, ok, err := c.leftover(ctx, gone)
	if err != nil || !ok {
		return reconcile.Result{}, err
	}
	retired, err := c.Ledger.Pools.Retired(ctx, req.id)
	age := c.Clock.Since(object.CreationTimestamp.Time)
	switch {
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("look up whether pool %s was retired: %w", req.name, err)
	case retired:
	case object.Status.AllocatedCIDR != "":
		return reconcile.Result{}, nil // see package recover
	case age < stray:
		return reconcile.Result{RequeueAfter: stray - age}, nil
	}
	return reconcile.Result{}, c.unpublish(ctx, gone)
}

// leftover finds the IPPool of a pool that is not in the ledger.
func (c *Controller) leftover(ctx context.Context, gone ledger.Pool) (object *ipamv1alpha1.IPPool, ok bool, err error) {
	cl, err := c.Catalog.Clusters.GetCluster(ctx, c.Catalog.Directory.Engaged(gone.Cluster))
	if err != nil {
		return nil, false, nil //nolint:nilerr // the IPPool goes with its workspace, or is seen again
	}
	object = &ipamv1alpha1.IPPool{}
	if err := cl.GetCache().Get(ctx, client.ObjectKey{Name: gone.Name}, object); err != nil ||
		!catalog.Shows(object, gone.Cluster, gone) {
		return nil, false, client.IgnoreNotFound(err)
	}
	_, another := catalog.IDOf(c.Ledger.Pools, object, gone.Cluster)
	return object, !another && object.Spec.CIDR == "", nil // else another pool has it, or a user wrote it
}
