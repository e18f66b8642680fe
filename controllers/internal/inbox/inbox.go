// Package inbox holds the queues of the controllers to which the ledger sends news. The queues exist before the ledger
// and the controllers, so that no news is lost. Adding to a queue never blocks.
package inbox

import (
	"cmp"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
)

const (
	// Coalesce is how long changes of a pool's usage are gathered before they are written to its status. Users are
	// promised half a second.
	Coalesce = 300 * time.Millisecond
	// soonest and latest bound the pause before a failed request is tried again.
	soonest, latest = 10 * time.Millisecond, 30 * time.Second
	// few is the largest number of pools of one change that are all written at once. More pools take turns.
	few = 4
	// apart is the time between two turns. Seven writes a second are a small load for a kcp.
	apart = 150 * time.Millisecond
)

// Queue is a controller's queue.
type Queue = workqueue.TypedRateLimitingInterface[mcreconcile.Request]

// Inbox passes the ledger's news to the controllers. It is safe for concurrent use.
type Inbox struct {
	// Claims is the queue of the claim controller.
	Claims Queue
	// Pools is the queue of the pool controller.
	Pools Queue

	listed    *listed // the storage of Claims
	directory *directory.Directory
	emptied   emptied
}

// PoolTable finds the ledger's pools.
type PoolTable interface {
	Get(id ledger.PoolID) (ledger.Pool, bool)
	InUse(id ledger.PoolID) bool
}

// New makes the queues.
func New(d *directory.Directory) *Inbox {
	listed := newListed()
	return &Inbox{
		Claims: newQueue("claim", soonest, latest, listed), Pools: NewQueue("pool"), listed: listed, directory: d,
	}
}

// ShutDown ends the queues. It may be called again.
func (i *Inbox) ShutDown() {
	i.Claims.ShutDown()
	i.Pools.ShutDown()
}

// Wake requeues the object for which the ledger has found room.
func (i *Inbox) Wake(h ledger.Holder) {
	queue := i.Claims
	if h.Namespace == "" {
		queue = i.Pools
	}
	queue.Add(Request(i.directory.Engaged(h.Cluster), client.ObjectKey{Namespace: h.Namespace, Name: h.Name}))
}

// Listed requeues a claim that the first list of a cache has shown. Claims that are queued by Add come first.
func (i *Inbox) Listed(claim mcreconcile.Request) {
	i.listed.mark(claim)
	i.Claims.Add(claim)
}

// Changed requeues pools whose usage has changed, after a moment. If pools of an address domain overlap, a change
// concerns several pools. Many pools are written in turn, so that a claim in such a domain keeps the server no busier
// than a claim in a few pools.
//
// A pool that is not in use any more is requeued at once: its owner may be about to delete it, and admission refuses
// that by the pool's status. Three kinds of empty pools wait as usual. The first was requeued at once less than
// Coalesce ago: it may be emptied again and again. The second was empty before the change, and is not in a hurry: a
// claim in an address domain changes the figures of all pools of the domain. The third was just made, and gets its
// first block a moment later. For an address space, its pool is requeued.
func (i *Inbox) Changed(pools PoolTable, ids ...ledger.PoolID) {
	now := time.Now()
	for place, id := range ids {
		if of, is := ledger.AddressSpaceOf(id); is {
			id = of
		}
		pool, ok := pools.Get(id)
		if !ok {
			continue
		}
		after, used := Coalesce+untilTurn(now, place, len(ids)), pools.InUse(id) || pool.Kept()
		if !used && i.emptied.first(id, now) && now.Sub(pool.RegisteredAt) >= Coalesce {
			after = 0
		}
		i.pool(pool, after)
		if !used || i.emptied.filled(id) {
			i.above(pools, pool, after)
		}
	}
}

// above requeues the pools above a derived pool. Each of them is in use as long as the derived pool is.
func (i *Inbox) above(pools PoolTable, pool ledger.Pool, after time.Duration) {
	for pool.Derived != nil {
		above, ok := pools.Get(pool.Above())
		if !ok {
			return
		}
		i.pool(above, after)
		pool = above
	}
}

func (i *Inbox) pool(pool ledger.Pool, after time.Duration) {
	i.Pools.AddAfter(Request(i.directory.Engaged(pool.Cluster), client.ObjectKey{Name: pool.Name}), after)
}

// untilTurn returns the time from now to the next turn of a pool. The parameter place is the index of the pool, and the
// parameter of is the number of pools. A few pools take no turns.
func untilTurn(now time.Time, place, of int) time.Duration {
	if of <= few {
		return 0
	}
	round := time.Duration(of) * apart
	since := time.Duration(now.UnixNano())%round - time.Duration(place)*apart
	return (round - since) % round
}

// Retired requeues the pools that have no CIDR, in two workspaces: in that of the pool that has left the ledger, and in
// the one that this pool has counted for. They may have waited for it, because it overlapped them, or because the
// number of pools that the workspace may have is limited. A request without a name stands for all these pools.
func (i *Inbox) Retired(pool ledger.Pool) {
	i.emptied.forget(pool.ID)
	for _, cluster := range []ledger.ClusterName{pool.Cluster, pool.CountsFor()} {
		if cluster != "" {
			i.Pools.Add(Request(i.directory.Engaged(cluster), client.ObjectKey{}))
		}
	}
}

// Request names an object of a cluster by the name that the manager has for the cluster.
func Request(cluster multicluster.ClusterName, key client.ObjectKey) mcreconcile.Request {
	return mcreconcile.Request{ClusterName: cluster, Request: reconcile.Request{NamespacedName: key}}
}

// NewQueue makes a queue in which workspaces take turns. name is its label in the metrics.
func NewQueue(name string) Queue { return newQueue(name, soonest, latest, NewTurns()) }

// InTurns makes a queue of items of any kind, in which workspaces take turns. The function of returns the workspace of
// an item. An item that fails is queued again after a pause, which grows from first to last.
func InTurns[T comparable](
	name string, first, last time.Duration, of func(T) ledger.ClusterName,
) workqueue.TypedRateLimitingInterface[T] {
	return newQueue(name, first, last, newTurns(of))
}

func newQueue[T comparable](
	name string, first, last time.Duration, storage workqueue.Queue[T],
) workqueue.TypedRateLimitingInterface[T] {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[T](first, last)
	items := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: storage})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{Name: name, Queue: items})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[T]{Name: name, DelayingQueue: delaying})
}

// Controlled returns the options of a controller with a queue that was made before the manager started, so that the
// controller misses nothing. fields returns the names and values by which the controller's log describes a request.
func Controlled[R comparable](
	logger logr.Logger, queue workqueue.TypedRateLimitingInterface[R], workers int, fields func(R) []any,
) controller.TypedOptions[R] {
	return controller.TypedOptions[R]{
		MaxConcurrentReconciles: workers,
		NewQueue: func(string, workqueue.TypedRateLimiter[R]) workqueue.TypedRateLimitingInterface[R] {
			return queue
		},
		LogConstructor: func(of *R) logr.Logger {
			if of == nil {
				return logger
			}
			return logger.WithValues(fields(*of)...)
		},
	}
}

// emptied remembers which pools are in use and which are empty, as far as changes have shown. The zero value is ready;
// safe for concurrent use.
type emptied struct {
	mu    sync.Mutex
	pools map[ledger.PoolID]emptying
}

// emptying says when a pool was last requeued at once, and whether it has been empty since.
type emptying struct {
	at    time.Time
	still bool
}

// first reports whether to requeue an empty pool at once. It is true if the pool was not empty before, and was not
// requeued at once less than Coalesce ago. An unknown pool counts as not empty.
func (e *emptied) first(id ledger.PoolID, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	last, known := e.pools[id]
	if known && (last.still || now.Sub(last.at) < Coalesce) {
		e.note(id, emptying{at: last.at, still: true})
		return false
	}
	e.note(id, emptying{at: now, still: true})
	return true
}

// filled notes that a pool is in use, and reports whether it may have been empty before. That is also true for an
// unknown pool.
func (e *emptied) filled(id ledger.PoolID) (was bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	last, known := e.pools[id]
	e.note(id, emptying{at: last.at})
	return last.still || !known
}

// note stores the facts of a pool. The caller holds mu.
func (e *emptied) note(id ledger.PoolID, now emptying) {
	if e.pools == nil {
		e.pools = map[ledger.PoolID]emptying{}
	}
	e.pools[id] = now
}

// forget drops a pool that has left the ledger.
func (e *emptied) forget(id ledger.PoolID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.pools, id)
}

// Compare orders requests by their names.
func Compare(a, b mcreconcile.Request) int {
	return cmp.Or(
		cmp.Compare(a.ClusterName, b.ClusterName),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	)
}
