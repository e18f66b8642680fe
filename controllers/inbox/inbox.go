// Package inbox holds the queues of the controllers that the ledger has news
// for. They exist before ledger and controllers do, so that no news is lost,
// and adding to one never blocks.
package inbox

import (
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/controllers/directory"
)

// coalesce is how long changes of a pool's use are gathered before they are
// written to its status; half a second is promised.
const coalesce = 300 * time.Millisecond

// Queue is a controller's queue.
type Queue = workqueue.TypedRateLimitingInterface[mcreconcile.Request]

// Inbox takes the ledger's news to the controllers. It is safe for concurrent use.
type Inbox struct {
	// Claims is the queue of the claim controller.
	Claims Queue
	// Pools is the queue of the pool controller.
	Pools Queue

	directory *directory.Directory
	pools     atomic.Pointer[PoolTable]
}

// PoolTable finds the ledger's pools.
type PoolTable interface {
	Pool(id allocator.PoolID) (allocator.Pool, bool)
}

// New makes the queues.
func New(d *directory.Directory) *Inbox {
	return &Inbox{Claims: NewQueue("claim"), Pools: NewQueue("pool"), directory: d}
}

// Wake has the object looked at that the ledger has found room for.
func (i *Inbox) Wake(h allocator.Holder) {
	queue := i.Claims
	if h.Namespace == "" {
		queue = i.Pools
	}
	queue.Add(Request(i.directory.Engaged(h.Cluster), client.ObjectKey{Namespace: h.Namespace, Name: h.Name}))
}

// Serve names the ledger whose pools Changed tells of. What changed before is
// not lost: the controllers look at every pool when they start.
func (i *Inbox) Serve(pools PoolTable) { i.pools.Store(&pools) }

// Changed has a pool looked at whose use has changed, soon.
func (i *Inbox) Changed(id allocator.PoolID) {
	pools := i.pools.Load()
	if pools == nil {
		return
	}
	if pool, ok := (*pools).Pool(id); ok {
		i.Pools.AddAfter(Request(i.directory.Engaged(pool.Cluster), client.ObjectKey{Name: pool.Name}), coalesce)
	}
}

// Retired has those pools of a workspace looked at that have no CIDR: the pool that has left the
// ledger may have stood in their way. A request without a name stands for them.
func (i *Inbox) Retired(pool allocator.Pool) {
	if pool.Parent == "" {
		i.Pools.Add(Request(i.directory.Engaged(pool.Cluster), client.ObjectKey{}))
	}
}

// Request names an object of a cluster as the manager knows it.
func Request(cluster multicluster.ClusterName, key client.ObjectKey) mcreconcile.Request {
	return mcreconcile.Request{ClusterName: cluster, Request: reconcile.Request{NamespacedName: key}}
}

// NewQueue makes a queue in which workspaces take turns. Its metrics have the name.
func NewQueue(name string) Queue {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[mcreconcile.Request](10*time.Millisecond, 30*time.Second)
	items := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[mcreconcile.Request]{
		Name: name, Queue: NewTurns(),
	})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[mcreconcile.Request]{Name: name, Queue: items})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[mcreconcile.Request]{
		Name: name, DelayingQueue: delaying,
	})
}
