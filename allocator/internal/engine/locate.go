package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/ledger"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// progressEvery is the pause between two questions how far the watch is: etcd
	// leaves them unanswered while the watch has something to catch up with.
	progressEvery = 50 * time.Millisecond
)

// locateAttempts is how often a pool is looked for in memory that the ledger has. It may
// come and go meanwhile, but not for ever: then memory is of another ledger.
const locateAttempts = 10

// Locate finds the space of a pool. One that is not in memory may have been
// registered a moment ago by somebody else.
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

// Known returns the record of a pool, if need be after asking the ledger.
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

// Confirm asks the ledger whether a pool is registered, and waits until what it
// says is known here.
func (eng *Engine) Confirm(ctx context.Context, id ledger.PoolID) error {
	_, revision, ok, err := eng.store.Pool(ctx, id)
	if err != nil {
		return err
	}
	if !ok {
		return ledger.ErrUnknownPool
	}
	return eng.Await(ctx, revision)
}

// Await waits until what the ledger held at a revision is known here.
func (eng *Engine) Await(ctx context.Context, revision int64) error {
	bounded, cancel := context.WithTimeout(ctx, eng.store.Timeout)
	defer cancel()
	if err := eng.Watched.Wait(bounded, revision); err == nil || ctx.Err() != nil {
		return err
	}
	return eng.Health.behind()
}

// AwaitAll waits until all is known here that the ledger held at a revision, also if
// that revision was of another part of etcd.
func (eng *Engine) AwaitAll(ctx context.Context, revision int64) error {
	bounded, cancel := context.WithTimeout(ctx, eng.store.Timeout)
	defer cancel()
	for eng.Watched.Get() < revision {
		// The watch is found by the metadata of the context it was started with.
		if err := eng.store.Client.RequestProgress(clientv3.WithRequireLeader(bounded)); err != nil {
			return eng.store.Unavailable(err)
		}
		short, cancel := context.WithTimeout(bounded, progressEvery)
		err := eng.Watched.Wait(short, revision)
		cancel()
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && bounded.Err() != nil {
			return eng.Health.behind()
		}
	}
	return nil
}
