package allocator

import (
	"context"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Retired reports whether a pool that is not in the ledger was retired by this Allocator. Otherwise the ledger may have
// lost the pool.
func (ps Pools) Retired(ctx context.Context, id ledger.PoolID) (bool, error) {
	if err := ledger.CheckID("pool", id); err != nil {
		return false, err
	}
	return ps.a.table.Retired.Has(id), nil
}
