package allocator

import (
	"context"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// endCooldowns ends the cooldowns that an op finds in the space of a pool. It reports whether there
// were any.
func (a *Allocator) endCooldowns(ctx context.Context, id ledger.PoolID, wanted engine.EndCooldowns) (bool, error) {
	return a.engine.EndAll(wanted, func(o engine.Op) error {
		_, err := a.engine.Submit(ctx, id, o)
		return err
	})
}

// endCooling frees the block that cools under the ID of a claim, if there is one.
func (a *Allocator) endCooling(ctx context.Context, id ledger.ClaimID) error {
	b, err := a.latest(ctx, id)
	if err != nil || b.State != ledger.Cooling {
		return err
	}
	if err := a.engine.Await(ctx, b.Revision); err != nil {
		return err
	}
	_, err = a.endCooldowns(ctx, b.Pool, engine.EndCooldowns{Within: b.Prefix})
	return err
}
