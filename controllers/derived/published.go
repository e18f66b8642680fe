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
	busy  map[ledger.PoolID]chan struct{} // pools whose IPPool is being created or deleted now; closed at the end
}

type publication struct {
	in             ledger.ClusterName
	registered, at time.Time
	lost           bool // the pool was opened again at that time, and has lost its IPPool
}

// has reports whether the IPPool of a pool was found or created after that time, and was not deleted since.
func (p *published) has(pool ledger.Pool, after time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.pools[pool.ID]
	return ok && !known.lost && known.registered.Equal(pool.RegisteredAt) && known.at.After(after)
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

// alone waits until no other caller creates or deletes the IPPool of a pool. Until the caller calls ended, no other
// caller does. Else a deletion could miss an IPPool that is being created, and a CREATE could be answered with an
// IPPool that is being deleted.
func (p *published) alone(ctx context.Context, id ledger.PoolID) (ended func(), err error) {
	for {
		busy := p.enter(id)
		if busy == nil {
			return func() { p.exit(id) }, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// enter notes that the IPPool of a pool is being created or deleted. If it is already, enter returns a channel that is
// closed at the end of that.
func (p *published) enter(id ledger.PoolID) (busy <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if busy, ok := p.busy[id]; ok {
		return busy
	}
	if p.busy == nil {
		p.busy = map[ledger.PoolID]chan struct{}{}
	}
	p.busy[id] = make(chan struct{})
	return nil
}

func (p *published) exit(id ledger.PoolID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.busy[id])
	delete(p.busy, id)
}

// leave forgets the pools of a workspace.
func (p *published) leave(cluster ledger.ClusterName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.pools, func(_ ledger.PoolID, known publication) bool { return known.in == cluster })
}
