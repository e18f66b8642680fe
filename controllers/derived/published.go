package derived

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// published remembers the young pools whose IPPool exists, so that not every CREATE tries to create it. It also
// remembers the pools that have lost their IPPool, because the cache may still show it. A pool that is made
// again has another time of registration. The zero value is ready; safe for concurrent use.
type published struct {
	mu    sync.Mutex
	pools map[ledger.PoolID]publication
	busy  map[ledger.PoolID]chan struct{} // pools whose IPPool is being created or deleted; closed when that ends
}

// requestTime is how long a request for an IPPool may take. kcp ends each request within it.
const requestTime = time.Minute

type publication struct {
	in             ledger.ClusterName
	registered, at time.Time
	lost           bool // the IPPool was deleted at that time, or the pool was opened again without it
}

// has reports whether the IPPool of a pool was found or created after that time, and was not deleted since.
func (p *published) has(pool ledger.Pool, after time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.pools[pool.ID]
	return ok && !known.lost && known.registered.Equal(pool.RegisteredAt) && known.at.After(after)
}

// lostLately reports whether a pool has lost its IPPool a moment ago, and was not published afterwards.
func (p *published) lostLately(id ledger.PoolID, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.pools[id]
	return known.lost && now.Sub(known.at) <= young
}

func (p *published) add(pool ledger.Pool, now time.Time) {
	p.note(pool.ID, publication{in: pool.Cluster, registered: pool.RegisteredAt, at: now})
}

// lose notes that the IPPool of a pool is about to be deleted, or that the pool was opened again and may have none.
func (p *published) lose(pool ledger.Pool, now time.Time) {
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

// drop forgets that the IPPool of a pool exists.
func (p *published) drop(id ledger.PoolID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.pools[id].lost { // the event of a former deletion says nothing about the last one
		delete(p.pools, id)
	}
}

// alone calls the function do while no other caller creates or deletes the IPPool of a pool, or closes the pool for a
// DELETE. Otherwise a deletion could miss an IPPool that is being created, a CREATE could be answered with an IPPool
// that is being deleted, and a DELETE could end the closing of another one.
//
// kcp may serve a request that its caller has given up. So if ctx ends meanwhile, alone returns its error, and do goes
// on for at most requestTime.
func (p *published) alone(ctx context.Context, id ledger.PoolID, do func(context.Context) error) error {
	for busy := p.enter(id); busy != nil; busy = p.enter(id) {
		select {
		case <-busy:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	done := make(chan error, 1)
	go func() {
		defer p.exit(id)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
		defer cancel()
		done <- do(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter notes that the caller is about to create or delete the IPPool of a pool. If another caller is doing so already,
// enter notes nothing, and returns a channel that is closed when that caller has ended.
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
