package allocator

import (
	"context"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Retired reports whether a pool that is not in the ledger was retired since this Allocator was
// opened, by this one or another. Otherwise the ledger may have lost the pool.
func (a *Allocator) Retired(ctx context.Context, id PoolID) (bool, error) {
	if err := ledger.CheckID("pool", id); err != nil {
		return false, err
	}
	kv, revision, err := a.store.Get(ctx, a.keys.Pool(id))
	if err != nil || kv != nil {
		return false, err
	}
	if err := a.engine.AwaitAll(ctx, revision); err != nil {
		return false, err
	}
	return a.table.HasRetired(id), nil
}
