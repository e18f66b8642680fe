package allocator

import (
	"context"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// progressEvery is the pause between two questions how far the watch is: etcd
	// leaves them unanswered while the watch has something to catch up with.
	progressEvery = 50 * time.Millisecond
)

// Retired reports whether a pool that the ledger does not know left it in good order
// since the Allocator was opened, here or elsewhere: then nothing of it was lost.
func (a *Allocator) Retired(ctx context.Context, id PoolID) (bool, error) {
	if err := ledger.CheckID("pool", id); err != nil {
		return false, err
	}
	kv, revision, err := a.store.Get(ctx, a.keys.Pool(id))
	if err != nil || kv != nil {
		return false, err
	}
	if err := a.awaitAll(ctx, revision); err != nil {
		return false, err
	}
	return a.table.HasRetired(id), nil
}

// awaitAll waits until all is known here that the ledger held at a revision, also if
// that revision was of another part of etcd.
func (a *Allocator) awaitAll(ctx context.Context, revision int64) error {
	bounded, cancel := context.WithTimeout(ctx, a.store.Timeout)
	defer cancel()
	for a.watched.get() < revision {
		// The watch is found by the metadata of the context it was started with.
		if err := a.store.Client.RequestProgress(clientv3.WithRequireLeader(bounded)); err != nil {
			return a.store.Unavailable(err)
		}
		short, cancel := context.WithTimeout(bounded, progressEvery)
		err := a.watched.wait(short, revision)
		cancel()
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && bounded.Err() != nil {
			return a.behind()
		}
	}
	return nil
}
