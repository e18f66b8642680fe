package derived

import (
	"maps"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
)

// soon is how long after a CREATE the Controller publishes the pools above the pool of the CREATE. So the requests for
// these pools do not delay the answer.
const soon = 50 * time.Millisecond

// request asks to reconcile a pool, and the IPPool of its name.
type request struct {
	id      ledger.PoolID
	cluster ledger.ClusterName
	name    string
}

// News is the queue of pools to reconcile. It is made before the Controller, and before the parts that add to it. Make
// it with NewNews. It is safe for concurrent use.
type News struct {
	queue workqueue.TypedRateLimitingInterface[request]
	pools catalog.Pools

	mu sync.Mutex
	// the pools whose range claim is gone, and that no claim holds again; each with the time of its registration
	dropped map[ledger.PoolID]time.Time
}

// NewNews makes the queue of one Controller, for pools of this ledger.
func NewNews(pools catalog.Pools) *News {
	return &News{
		queue: inbox.InTurns("derived", 100*time.Millisecond, time.Minute, func(r request) ledger.ClusterName {
			return r.cluster
		}),
		pools:   pools,
		dropped: map[ledger.PoolID]time.Time{},
	}
}

// wasDropped reports whether the range claim of a pool is gone. It is false for a pool that was made for the same scope
// afterwards.
func (n *News) wasDropped(p ledger.Pool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	registered, dropped := n.dropped[p.ID]
	return dropped && registered.Equal(p.RegisteredAt)
}

// forget removes the marks of pools that are gone, or that a claim holds again.
func (n *News) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.dropped, func(id ledger.PoolID, registered time.Time) bool {
		p, there := n.pools.Get(id)
		return !there || p.Derived.Holder.Claim != "" || !registered.Equal(p.RegisteredAt)
	})
}

// Dropped notes that the range claim of a pool is gone, for example with its namespace. The pool is retired as soon as
// it is empty, and does not stay idle before. Dropped does not block.
func (n *News) Dropped(id ledger.PoolID) {
	p, ok := n.pools.Get(id)
	if !ok {
		return
	}
	n.mu.Lock()
	n.dropped[id] = p.RegisteredAt
	n.mu.Unlock()
	n.queue.Add(request{id, p.Cluster, p.Name})
}

// Announce queues derived pools, so that the Controller publishes those without an IPPool. It leaves out pools that a
// user has written: these have one. It does not block.
func (n *News) Announce(pools ...ledger.Pool) {
	for _, p := range pools {
		if ledger.IsDerived(p.ID) {
			n.queue.AddAfter(request{p.ID, p.Cluster, p.Name}, soon)
		}
	}
}
