package engine

import (
	"context"
	"fmt"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// locateAttempts is how often a pool of the ledger is looked for in memory. It may come and go
// meanwhile, but not for ever: then memory is of another ledger.
const locateAttempts = 10

// Locate finds the space of a pool. Another Allocator may have registered the pool a moment
// ago, so that one that is not in memory is looked up in the ledger.
func (eng *Engine) Locate(ctx context.Context, id ledger.PoolID) (*Worker, error) {
	for range locateAttempts {
		if w, ok := eng.WorkerOf(id); ok {
			return w, nil
		}
		if err := eng.Health.Err(); err != nil {
			return nil, err
		}
		if err := eng.Confirm(ctx, id); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: pool %s is registered, and memory does not know it", ledger.ErrUnavailable, id)
}

// Known returns the record of a pool. It asks the ledger for one that is not in memory.
func (eng *Engine) Known(ctx context.Context, id ledger.PoolID) (record ledger.Pool, err error) {
	if err := ledger.CheckID("pool", id); err != nil {
		return ledger.Pool{}, err
	}
	for {
		if _, err := eng.Locate(ctx, id); err != nil {
			return ledger.Pool{}, err
		}
		if eng.Table.Visit(id, func(p *space.Pool) { record = p.Pool }) {
			return record, nil
		}
	}
}

// WorkerOf is the worker of the space of a pool that is in memory.
func (eng *Engine) WorkerOf(id ledger.PoolID) (*Worker, bool) {
	p, ok := eng.Table.Find(id)
	if !ok {
		return nil, false
	}
	return eng.Spaces.find(p.In.ID)
}

// Confirm asks the ledger whether a pool is registered, and waits until the pool's last
// change is in memory. ErrUnknownPool: it is not registered.
func (eng *Engine) Confirm(ctx context.Context, id ledger.PoolID) error {
	_, revision, ok, err := eng.store.Pool(ctx, id)
	if err != nil {
		return err
	}
	if !ok {
		return ledger.ErrUnknownPool
	}
	return eng.Watched.Await(ctx, revision)
}
