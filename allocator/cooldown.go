package allocator

import (
	"context"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// endCooldowns frees the wanted cooling blocks in the space of a pool. It reports whether there were any.
func (ps Pools) endCooldowns(ctx context.Context, id ledger.PoolID, wanted engine.EndCooldowns) (bool, error) {
	return ps.a.engine.EndAll(wanted, func(o engine.Op) error {
		_, err := ps.a.engine.Submit(ctx, id, o)
		return err
	})
}

// endCooling frees the block that cools under the ID of a claim, if there is one.
func (ps Pools) endCooling(ctx context.Context, id ledger.ClaimID) error {
	b, err := ps.a.store.BlockOf(ctx, id)
	if err != nil || b.State != ledger.Cooling {
		return err
	}
	_, err = ps.endCooldowns(ctx, b.Pool, engine.EndCooldowns{Within: b.Prefix})
	return err
}
