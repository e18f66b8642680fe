package allocator

import (
	"context"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Retain makes the bound block of a claim a retained one, until the caller releases it. until is the end of its lease,
// when the caller should release it; zero: it has no lease. A block that is retained already keeps its lease. ok is
// false if the claim has no block.
func (rt Retained) Retain(
	ctx context.Context, id ledger.ClaimID, until time.Time,
) (b ledger.Block, ok bool, err error) {
	return rt.amend(ctx, id, func(h *store.Holding) {
		if h.State == ledger.Bound {
			h.State, h.Until = ledger.Retained, store.Stamped(until)
		}
	})
}
