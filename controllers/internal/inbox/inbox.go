// Package inbox holds the queues of the controllers that the ledger has news
// for. They exist before ledger and controllers do, so that no news is lost,
// and adding to one never blocks.
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
	// Coalesce is how long changes of a pool's use are gathered before they are
	// written to its status; half a second is promised.
	Coalesce = 300 * time.Millisecond
	// soonest and latest are after how long what has failed is tried again.
	soonest, latest = 10 * time.Millisecond, 30 * time.Second
	// few pools that one change concerns are written as one is. More take turns.
	few = 4
	// apart is the time between two turns: seven writes a second take little from a kcp.
	apart = 150 * time.Millisecond
)

// Queue is a controller's queue.
type Queue = workqueue.TypedRateLimitingInterface[mcreconcile.Request]

// Inbox takes the ledger's news to the controllers. It is safe for concurrent use.
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

// Listed requeues a claim that a first list has shown, behind the claims that are queued by Add.
func (i *Inbox) Listed(claim mcreconcile.Request) {
	i.listed.mark(claim)
	i.Claims.Add(claim)
}

// Changed requeues pools whose use has changed, after a moment. A change concerns more than one
// where pools of an address domain overlap, and of many the status is written in turn: a
// claim in such a domain keeps the server no busier than with a few pools.
//
// A pool that holds nothing any more is requeued at once, as it is about to be deleted, perhaps: admission refuses that
// by the pool's status. One that is emptied again and again is requeued so once a moment, and one that was empty before
// takes its turn: a claim in an address domain changes the figures of all its pools. So does one that was just made,
// and gives out its first block a moment later. An address space is used as its pool is.
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

// above requeues the pools above a derived one, which are used as long as it is.
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

// untilTurn is the time from now to the next turn of one among so many pools. A few take
// none.
func untilTurn(now time.Time, place, of int) time.Duration {
	if of <= few {
		return 0
	}
	round := time.Duration(of) * apart
	since := time.Duration(now.UnixNano())%round - time.Duration(place)*apart
	return (round - since) % round
}

// Retired requeues the pools of a workspace that have no CIDR: the pool that has left the ledger may
// have stood in their way, or been one of as many as the workspace may have, or as another one may for which it has
// counted. A request without a name stands for them.
func (i *Inbox) Retired(pool ledger.Pool) {
	i.emptied.forget(pool.ID)
	for _, cluster := range []ledger.ClusterName{pool.Cluster, pool.CountsFor()} {
		if cluster != "" {
			i.Pools.Add(Request(i.directory.Engaged(cluster), client.ObjectKey{}))
		}
	}
}

// Request names an object of a cluster as the manager knows it.
func Request(cluster multicluster.ClusterName, key client.ObjectKey) mcreconcile.Request {
	return mcreconcile.Request{ClusterName: cluster, Request: reconcile.Request{NamespacedName: key}}
}

// NewQueue makes a queue in which workspaces take turns. Its metrics have the name.
func NewQueue(name string) Queue { return newQueue(name, soonest, latest, NewTurns()) }

// InTurns makes one of items of any kind: of says whose an item is. One that fails is queued again, between first and
// last later.
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

// Controlled returns the options of a controller whose queue is made before the manager starts, so that it misses
// nothing. fields are the names and values that its log has of a request.
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

// emptied knows which pools hold nothing and which hold something, as far as changes have told of them. The zero value
// is ready; safe for concurrent use.
type emptied struct {
	mu    sync.Mutex
	pools map[ledger.PoolID]emptying
}

// emptying is when a pool was last requeued at once, and whether it has been empty since.
type emptying struct {
	at    time.Time
	still bool
}

// first reports whether a pool that holds nothing is to be requeued at once: if it has held something since it was
// requeued so, and that was not within the last moment.
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

// filled notes that a pool holds something, and reports whether it may have been empty: nothing is known of a pool
// whose first change this is.
func (e *emptied) filled(id ledger.PoolID) (was bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	last, known := e.pools[id]
	e.note(id, emptying{at: last.at})
	return last.still || !known
}

// note stores what is known of a pool. The caller holds mu.
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
