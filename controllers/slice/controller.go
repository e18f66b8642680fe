package slice

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
)

// Oracle answers whether the pool of a slice still exists.
type Oracle interface {
	Holder(ctx context.Context, h ledger.Holder) (live.Answer, error)
}

// Options configure a Controller. All fields are required.
type Options struct {
	Catalog   *catalog.Catalog
	Directory *directory.Directory
	Ledger    views.Ledger
	Oracle    Oracle
	// Departed reports whether a workspace's binding was seen to go, and no other came since.
	Departed func(ledger.ClusterName) bool
}

// request asks for a reconcile of what a workspace has of a pool. Without a cluster, it asks for a reconcile of the
// pool.
type request struct {
	pool    string
	cluster ledger.ClusterName
}

// Controller gives slices. It is safe for concurrent use.
type Controller struct {
	Options
	queue   workqueue.TypedRateLimitingInterface[request]
	doubt   workqueue.TypedRateLimiter[request] // for requests whose workspace cannot be asked
	members memberLists
	clock   clock.PassiveClock
	// absences notes since when servers find a workspace bound nowhere.
	absences live.Absences
}

// New makes the controller, and adds it to mgr.
func New(mgr manager.Manager, opts Options) (*Controller, error) {
	c := &Controller{
		Options: opts,
		queue: inbox.InTurns("slice", 50*time.Millisecond, time.Minute, func(r request) ledger.ClusterName {
			return r.cluster
		}),
		doubt: workqueue.NewTypedItemExponentialFailureRateLimiter[request](2*time.Second, time.Minute),
		clock: clock.RealClock{},
	}
	options := inbox.Controlled(mgr.GetLogger(), c.queue, 8, func(req request) []any {
		return []any{"cluster", req.cluster, "pool", req.pool}
	})
	options.Reconciler = c
	_, err := controller.NewTyped("slice", mgr, options)
	return c, err
}

// Reconcile reconciles one pool, or what one workspace has of it.
func (c *Controller) Reconcile(ctx context.Context, req request) (reconcile.Result, error) {
	if req.cluster == "" {
		return c.report(ctx, req.pool)
	}
	return c.member(ctx, req)
}

// Seen is called for every pool that was created (before is nil), changed, or deleted (after is nil). It does not
// block.
func (c *Controller) Seen(in ledger.ClusterName, before, after *ipamv1alpha1.IPPool) {
	pool := cmp.Or(after, before)
	if in == c.Directory.Platform().Cluster {
		c.seenOnPlatform(pool.Name, before, after)
		return
	}
	switch {
	case pool.Labels[ipamv1alpha1.LabelSlice] == "" && (after != nil || c.members.owner(pool.Name) == ""):
	case before == nil, after == nil, stageOf(before) != stageOf(after):
		c.queue.Add(request{pool: pool.Name, cluster: in})
	}
}

// seenOnPlatform queues a pool that has or had slices. If its free space has changed, it queues the members whose
// blocks drain instead: these blocks may have returned.
func (c *Controller) seenOnPlatform(name string, before, after *ipamv1alpha1.IPPool) {
	sliced := func(p *ipamv1alpha1.IPPool) bool {
		return p != nil &&
			(p.Spec.Slices != nil || meta.FindStatusCondition(p.Status.Conditions, ipamv1alpha1.ConditionSliced) != nil)
	}
	if !sliced(before) && !sliced(after) && c.members.owner(name) == "" {
		return
	}
	if before == nil || after == nil || before.Generation != after.Generation || stageOf(before) != stageOf(after) {
		c.queue.Add(request{pool: name})
		return
	}
	if !equality.Semantic.DeepEqual(before.Status.Capacity, after.Status.Capacity) {
		for _, cluster := range c.members.inState(name, draining) {
			c.queue.Add(request{pool: name, cluster: cluster})
		}
	}
}

// Changed queues every slice of a workspace. It is called when the workspace binds the export, gets a path or departs,
// and when its cache becomes readable or unreadable. It does not block.
func (c *Controller) Changed(cluster ledger.ClusterName) {
	for _, pool := range c.members.pools() {
		c.queue.Add(request{pool: pool, cluster: cluster})
	}
}
