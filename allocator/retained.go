package allocator

import (
	"context"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Retained is the Allocator's view of the blocks that outlive their claims. It is safe for concurrent use.
type Retained struct{ a *Allocator }

// Retained returns the operations on retained blocks.
func (a *Allocator) Retained() Retained { return Retained{a} }

// Due returns the holders whose leases are over, the oldest first, and when the next holder is due; zero: never. A
// holder is due again after a minute, as long as the ledger has the block. It releases nothing: the caller does, once
// it has confirmed that the claim is gone.
func (rt Retained) Due(now time.Time) (due []ledger.Holder, next time.Time) {
	return rt.a.table.Leases.Tell(now)
}

// News returns a channel that receives a value when the next lease may end earlier than Due has returned. It is for one
// receiver.
func (rt Retained) News() <-chan struct{} { return rt.a.table.Leases.News }

// SetPolicy records the reclaim policy of a claim's block. It writes nothing if the block
// has that policy already, or if the claim has no block.
func (rt Retained) SetPolicy(ctx context.Context, id ledger.ClaimID, policy ledger.ReclaimPolicy) error {
	_, _, err := rt.amend(ctx, id, func(h *store.Holding) { h.Policy = policy })
	return err
}
