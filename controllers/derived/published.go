package derived

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// published remembers the young pools whose IPPool exists, so that not every CREATE tries to create it. It also
// remembers the pools that were opened again, because the cache may still show their former IPPool. A pool that is made
// again has another time of registration. The zero value is ready; safe for concurrent use.
type published struct {
	mu    sync.Mutex
	pools map[ledger.PoolID]publication
	going map[ledger.PoolID]chan struct{} // pools whose IPPool is being deleted now; closed at the end
}

type publication struct {
	in             ledger.ClusterName
	registered, at time.Time
	lost           bool // the pool was opened again at that time, and has lost its IPPool
}

func (p *published) has(pool ledger.Pool, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.pools[pool.ID]
	return ok && !known.lost && known.registered.Equal(pool.RegisteredAt) && now.Sub(known.at) <= 2*young
}

// reopened reports whether a pool was opened again a moment ago, and was not published afterwards.
func (p *published) reopened(id ledger.PoolID, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.pools[id]
	return known.lost && now.Sub(known.at) <= young
}

func (p *published) add(pool ledger.Pool, now time.Time) {
	p.note(pool.ID, publication{in: pool.Cluster, registered: pool.RegisteredAt, at: now})
}

// reopen notes that a pool was opened again.
func (p *published) reopen(pool ledger.Pool, now time.Time) {
	p.note(pool.ID, publication{in: pool.Cluster, registered: pool.RegisteredAt, at: now, lost: true})
}

func (p *published) note(id ledger.PoolID, noted publication) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pools == nil {
		p.pools = map[ledger.PoolID]publication{}
	}
	maps.DeleteFunc(p.pools, func(_ ledger.PoolID, known publication) bool { return noted.at.Sub(known.at) > 2*young })
	p.pools[id] = noted
}

func (p *published) drop(id ledger.PoolID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pools, id)
}

// deleting notes that the IPPool of a pool is being deleted, after it has waited for earlier deletions. The caller
// calls ended at the end.
func (p *published) deleting(ctx context.Context, id ledger.PoolID) (ended func(), err error) {
	for {
		if err := p.settled(ctx, id); err != nil {
			return nil, err
		}
		p.mu.Lock()
		if p.going[id] == nil {
			break
		}
		p.mu.Unlock()
	}
	defer p.mu.Unlock()
	if p.going == nil {
		p.going = map[ledger.PoolID]chan struct{}{}
	}
	done := make(chan struct{})
	p.going[id] = done
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.going, id)
		close(done)
	}, nil
}

// settled waits until the IPPool of a pool is not being deleted. Else a caller that publishes the pool would find an
// IPPool that then goes.
func (p *published) settled(ctx context.Context, id ledger.PoolID) error {
	p.mu.Lock()
	going := p.going[id]
	p.mu.Unlock()
	if going == nil {
		return nil
	}
	select {
	case <-going:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave forgets the pools of a workspace.
func (p *published) leave(cluster ledger.ClusterName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.pools, func(_ ledger.PoolID, known publication) bool { return known.in == cluster })
}
