package derived

import (
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
)

// soon is how long after a CREATE the controller publishes the pools above the one that the CREATE is answered with: they do not
// take the server's time from it.
const soon = 50 * time.Millisecond

// request asks for a look at a pool, and at the IPPool of its name.
type request struct {
	id      ledger.PoolID
	cluster ledger.ClusterName
	name    string
}

// News are the pools that a Controller is told to look at. They exist before it, and before the parts that tell them. Make them with
// NewNews. They are safe for concurrent use.
type News struct {
	queue workqueue.TypedRateLimitingInterface[request]
	pools catalog.Pools
}

// NewNews makes the queue of one Controller, for pools of this ledger.
func NewNews(pools catalog.Pools) *News {
	return &News{
		queue: inbox.InTurns("derived", 100*time.Millisecond, time.Minute, func(r request) ledger.ClusterName { return r.cluster }),
		pools: pools,
	}
}

// Dropped takes the news of a pool that nobody holds any more. It does not block.
func (n *News) Dropped(id ledger.PoolID) {
	if p, ok := n.pools.Get(id); ok {
		n.queue.Add(request{id, p.Cluster, p.Name})
	}
}

// Announce queues pools to be published, each unless it has its IPPool. A pool that somebody has written has one. It does not block.
func (n *News) Announce(pools ...ledger.Pool) {
	for _, p := range pools {
		if ledger.IsDerived(p.ID) {
			n.queue.AddAfter(request{p.ID, p.Cluster, p.Name}, soon)
		}
	}
}
