package allocator

import (
	"context"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Lookup reads the block of a claim from the ledger, as of now. ok is false if the claim has none. A cooling block does
// not count, because it has no holder.
func (a *Allocator) Lookup(ctx context.Context, id ledger.ClaimID) (b ledger.Block, ok bool, err error) {
	if err := ledger.CheckID("claim", id); err != nil {
		return ledger.Block{}, false, err
	}
	b, err = a.store.BlockOf(ctx, id)
	if err != nil || b.State == "" || b.State == ledger.Cooling {
		return ledger.Block{}, false, err
	}
	return b, true, nil
}
