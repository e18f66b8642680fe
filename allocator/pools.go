package allocator

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Pool is the pool's record as known here.
func (a *Allocator) Pool(id PoolID) (Pool, bool) {
	p, ok := a.table.Find(id)
	if !ok {
		return Pool{}, false
	}
	p.In.Lock()
	defer p.In.Unlock()
	record := p.Pool
	record.Excluded = slices.Clone(record.Excluded)
	return record, true
}

// Registered reads a pool's record from the ledger, and the revision of its last change; ok is
// false if there is none.
func (a *Allocator) Registered(ctx context.Context, id PoolID) (p Pool, revision int64, ok bool, err error) {
	if err := ledger.CheckID("pool", id); err != nil {
		return Pool{}, 0, false, err
	}
	return a.store.Pool(ctx, id)
}

// Pools yields all pools known here, in no order. It is a snapshot: the caller
// may do anything meanwhile.
func (a *Allocator) Pools() iter.Seq[Pool] {
	ids := a.table.IDs()
	return func(yield func(Pool) bool) {
		for _, id := range ids {
			if p, ok := a.Pool(id); ok && !yield(p) {
				return
			}
		}
	}
}

// Capacity counts what a pool holds, as known here. Pools of one address domain
// share what they have in common, so a block of one counts in the others too.
func (a *Allocator) Capacity(id PoolID) (Capacity, bool) {
	p, ok := a.table.Find(id)
	if !ok {
		return Capacity{}, false
	}
	p.In.Lock()
	defer p.In.Unlock()
	return p.Capacity(), true
}

// Fit is the length of the smallest free block of a pool that can hold a prefix
// of the given length, as known here; ok is false when there is none.
func (a *Allocator) Fit(id PoolID, length int) (fit int, ok bool) {
	p, ok := a.table.Find(id)
	if !ok {
		return 0, false
	}
	p.In.Lock()
	defer p.In.Unlock()
	free := p.Index.Histogram()
	for fit = min(length, len(free)-1); fit >= 0; fit-- {
		if free[fit] > 0 {
			return fit, true
		}
	}
	return 0, false
}

// FreeBlocks counts the free blocks of a pool by prefix length, as known here: the
// fewest that its free space can be seen as. What is reserved for a transaction or
// held for a claim that waits is not free.
func (a *Allocator) FreeBlocks(id PoolID) (index.Histogram, bool) {
	p, ok := a.table.Find(id)
	if !ok {
		return index.Histogram{}, false
	}
	p.In.Lock()
	defer p.In.Unlock()
	return p.Index.Histogram(), true
}

// locateAttempts is how often a pool is looked for in memory that the ledger has. It may
// come and go meanwhile, but not for ever: then memory is of another ledger.
const locateAttempts = 10

// locate finds the space of a pool. One that is not in memory may have been
// registered a moment ago by somebody else.
func (a *Allocator) locate(ctx context.Context, id PoolID) (*worker, error) {
	for range locateAttempts {
		if w, ok := a.workerOf(id); ok {
			return w, nil
		}
		if err := a.Err(); err != nil {
			return nil, err
		}
		if err := a.confirm(ctx, id); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: pool %s is registered, and memory does not know it", ErrUnavailable, id)
}

// workerOf is the worker of the space of a pool that is in memory.
func (a *Allocator) workerOf(id PoolID) (*worker, bool) {
	p, ok := a.table.Find(id)
	if !ok {
		return nil, false
	}
	return a.worker(p.In.ID)
}

// confirm asks the ledger whether a pool is registered, and waits until what it
// says is known here.
func (a *Allocator) confirm(ctx context.Context, id PoolID) error {
	_, revision, ok, err := a.store.Pool(ctx, id)
	if err != nil {
		return err
	}
	if !ok {
		return ErrUnknownPool
	}
	return a.await(ctx, revision)
}

// await waits until what the ledger held at a revision is known here.
func (a *Allocator) await(ctx context.Context, revision int64) error {
	bounded, cancel := context.WithTimeout(ctx, a.store.Timeout)
	defer cancel()
	if err := a.watched.wait(bounded, revision); err == nil || ctx.Err() != nil {
		return err
	}
	return a.behind()
}
