package derived

import (
	"maps"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// published remembers the young pools that have their IPPool, so that not every CREATE tries to create it. A pool that is made again
// has another time of registration. The zero value is ready; safe for concurrent use.
type published struct {
	mu    sync.Mutex
	pools map[ledger.PoolID]publication
}

type publication struct {
	in             ledger.ClusterName
	registered, at time.Time
}

func (p *published) has(pool ledger.Pool, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.pools[pool.ID]
	return ok && known.registered.Equal(pool.RegisteredAt) && now.Sub(known.at) <= 2*young
}

func (p *published) add(pool ledger.Pool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pools == nil {
		p.pools = map[ledger.PoolID]publication{}
	}
	maps.DeleteFunc(p.pools, func(_ ledger.PoolID, known publication) bool { return now.Sub(known.at) > 2*young })
	p.pools[pool.ID] = publication{pool.Cluster, pool.RegisteredAt, now}
}

func (p *published) drop(id ledger.PoolID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pools, id)
}

// leave forgets the pools of a workspace.
func (p *published) leave(cluster ledger.ClusterName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.pools, func(_ ledger.PoolID, known publication) bool { return known.in == cluster })
}
