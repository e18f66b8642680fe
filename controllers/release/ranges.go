package release

import (
	"context"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
)

// Ranges are the pools that claims hold as a whole.
type Ranges interface {
	Held(by ledger.ClaimID) (ledger.Pool, bool)
	Drop(ctx context.Context, id ledger.PoolID, by ledger.ClaimID, since time.Time) error
}

// rangeKeeper finds the ranges that claims hold, and ends their holds. Its functions are those of the Options.
type rangeKeeper struct {
	ledger       Ranges // nil: no claim holds a pool
	pools        views.Pools
	retireClosed func(ctx context.Context, id ledger.PoolID, by ledger.ClaimID) error
	dropped      func(ledger.PoolID)
}

// find notes in s the range that the claim holds, and reports whether it holds one.
func (r rangeKeeper) find(ctx context.Context, s *suspect) (bool, error) {
	if r.ledger == nil {
		return false, nil
	}
	pool, held := r.ledger.Held(s.Claim)
	if !held {
		return false, nil
	}
	s.closed = pool.Closed() // this is in memory alone
	pool, revision, known, err := r.pools.Read(ctx, pool.ID)
	if err != nil || !known || pool.Derived == nil || pool.Derived.Holder.Claim != s.Claim {
		return false, err
	}
	s.Holder, s.ranged = pool.Derived.Holder, pool.ID
	s.known, s.prefix, s.since, s.revision = true, pool.CIDR, pool.Derived.HeldSince, revision
	return true, nil
}

// unhold ends the hold of a range, if the hold has not changed since it was read. If the range was closed for the
// DELETE of its claim, unhold retires the range.
func (r rangeKeeper) unhold(ctx context.Context, s *suspect) (bool, error) {
	if s.closed {
		return freed(ctx, s, "claim is gone, which held the range", r.retireClosed(ctx, s.ranged, s.Claim))
	}
	settled, err := freed(ctx, s, "claim is gone, which held the range", r.ledger.Drop(ctx, s.ranged, s.Claim, s.since))
	if settled {
		r.dropped(s.ranged)
	}
	return settled, err
}
