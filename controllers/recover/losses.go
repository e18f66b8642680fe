package recover

import (
	"errors"
	"maps"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
)

// losses are the lost pools, whose changes the ledger lacks. Make them with newLosses. Safe for concurrent use.
type losses struct {
	tries workqueue.TypedRateLimiter[ledger.PoolID] // backoff of each pool, by the passes that have left it frozen

	mu      sync.Mutex
	pools   map[ledger.PoolID]time.Time // the lost pools, with the time from which a pass may begin for each
	retired map[ledger.PoolID]bool      // pools that were retired before the loss, as a pass has found
	await   map[ledger.PoolID]*nameless // the workspace path that each stuck pool waits for
	hurried map[ledger.ClusterName]time.Time
}

// nameless is the reason of a pool that is stuck until the path of a workspace is known.
type nameless struct {
	cluster ledger.ClusterName // the workspace; empty: any workspace with the path
	path    string
	error
}

// Unwrap returns the reason without the workspace.
func (n *nameless) Unwrap() error { return n.error }

func newLosses() *losses {
	return &losses{
		tries: workqueue.NewTypedItemExponentialFailureRateLimiter[ledger.PoolID](retry, longest),
		pools: map[ledger.PoolID]time.Time{}, retired: map[ledger.PoolID]bool{},
		await: map[ledger.PoolID]*nameless{}, hurried: map[ledger.ClusterName]time.Time{},
	}
}

func (l *losses) has(id ledger.PoolID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, lost := l.pools[id]
	return lost
}

// add remembers that a pool is lost.
func (l *losses) add(id ledger.PoolID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.pools[id]; !known {
		l.pools[id] = time.Time{}
	}
	frozen.Set(float64(len(l.pools)))
}

// wasRetired reports whether a pass has found that a pool was retired before the loss.
func (l *losses) wasRetired(id ledger.PoolID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.retired[id]
}

// retire notes that a lost pool was retired before the loss, so that the ledger lacks nothing of it.
func (l *losses) retire(id ledger.PoolID) {
	l.forget(func(lost ledger.PoolID) bool { return lost == id })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired[id] = true
}

// forget removes the selected pools from the losses.
func (l *losses) forget(some func(id ledger.PoolID) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.await, func(id ledger.PoolID, _ *nameless) bool { return some(id) })
	maps.DeleteFunc(l.retired, func(id ledger.PoolID, _ bool) bool { return some(id) })
	maps.DeleteFunc(l.pools, func(id ledger.PoolID, _ time.Time) bool {
		gone := some(id)
		if gone {
			l.tries.Forget(id)
		}
		return gone
	})
	frozen.Set(float64(len(l.pools)))
}

// postpone lets each lost pool wait for its next pass, with exponential backoff: a pass lists all that is published,
// and some pools can never be mended. A pool that this pass resumes is forgotten afterwards. A pass that fails as a
// whole postpones no pool.
func (l *losses) postpone(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.pools {
		l.pools[id] = now.Add(l.tries.When(id))
	}
}

// wait returns how long it takes until a pass may begin for the first of the lost pools: at most longest, and not more
// than zero if a pass may begin now.
func (l *losses) wait(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := longest
	for _, next := range l.pools {
		first = min(first, next.Sub(now))
	}
	return first
}

// ready reports whether the backoff of a pool is over, so that a pass may begin for it. A pool that is newly found lost
// has no backoff.
func (l *losses) ready(id ledger.PoolID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.pools[id].After(now)
}

// note remembers which workspace path a stuck pool waits for, if any.
func (l *losses) note(id ledger.PoolID, stuck error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if delete(l.await, id); stuck == nil {
		return
	}
	if of, ok := errors.AsType[*nameless](stuck); ok {
		l.await[id] = of
	}
}

// hurry ends the backoff of the lost pools that wait only for the path of this workspace, at most once a minute for
// each workspace. A pass lists all that is published, and a tenant can rename its workspace as often as it likes.
func (l *losses) hurry(named directory.Workspace, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.hurried, func(_ ledger.ClusterName, at time.Time) bool { return now.Sub(at) >= longest })
	if _, again := l.hurried[named.Cluster]; again {
		return
	}
	for id, of := range l.await {
		if _, lost := l.pools[id]; lost && (of.cluster == named.Cluster || of.cluster == "" && of.path == named.Path) {
			l.pools[id], l.hurried[named.Cluster] = time.Time{}, now
		}
	}
}
