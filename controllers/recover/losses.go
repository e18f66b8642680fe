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

// losses are the pools that the ledger has lost something of. Make them with newLosses. Safe for concurrent use.
type losses struct {
	tries workqueue.TypedRateLimiter[ledger.PoolID] // passes that have left a pool frozen

	mu      sync.Mutex
	pools   map[ledger.PoolID]time.Time // until they are whole again; when the next pass may begin for each
	retired map[ledger.PoolID]bool      // those that a pass has found to be retired before the loss
	await   map[ledger.PoolID]*nameless // the names that a pass has missed
	hurried map[ledger.ClusterName]time.Time
}

// nameless is why a pool is stuck until a workspace is known by its path: one that shows another, or none, or that
// nobody knows.
type nameless struct {
	cluster ledger.ClusterName // of the workspace; empty: any that has the path
	path    string
	error
}

// Unwrap returns the reason in words.
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

// retire notes that a lost pool was retired before the loss: it lacks nothing.
func (l *losses) retire(id ledger.PoolID) {
	l.forget(func(lost ledger.PoolID) bool { return lost == id })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired[id] = true
}

// forget forgets that some of the pools were lost.
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

// postpone makes each lost pool wait for the next pass, unless this one resumes it: the longer, the more passes did
// not. A pass reads all that is published, and some pools nobody can mend. A pass that fails for all pools makes none
// wait longer.
func (l *losses) postpone(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.pools {
		l.pools[id] = now.Add(l.tries.When(id))
	}
}

// wait returns the time until a pass may begin for the first of all lost pools, a minute at most.
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
// has none.
func (l *losses) ready(id ledger.PoolID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.pools[id].After(now)
}

// note keeps which name of a workspace could free a pool that is stuck.
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

// hurry ends the wait of the lost pools that lack nothing but the path that a workspace has now. A pass reads all that
// is published, and a tenant can rename its workspace as often as it likes: no workspace does so more than once a
// minute.
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
