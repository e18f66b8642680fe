package release

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
)

// Ranges are the pools that claims hold as a whole.
type Ranges interface {
	Held(by ledger.ClaimID) (ledger.Pool, bool)
	Hand(ctx context.Context, id ledger.PoolID, from ledger.ClaimID, to ledger.Holder) (ok bool, err error)
	Drop(ctx context.Context, id ledger.PoolID, by ledger.ClaimID, since time.Time) error
}

// rangeKeeper knows the ranges of holders, and gives them on. The other functions are those of the Options.
type rangeKeeper struct {
	ledger       Ranges // nil: no claim holds a pool
	pools        views.Pools
	retireClosed func(ctx context.Context, id ledger.PoolID, by ledger.ClaimID) error
	dropped      func(ledger.PoolID)
}

// find notes the pool that a claim, or the reservation of one, holds. It reports whether there is one.
func (r rangeKeeper) find(ctx context.Context, s *suspect) (bool, error) {
	if r.ledger == nil {
		return false, nil
	}
	pool, held := r.ledger.Held(s.Claim)
	if !held {
		return false, nil
	}
	s.closed = pool.Closed() // as memory alone has it
	pool, revision, known, err := r.pools.Read(ctx, pool.ID)
	if err != nil || !known || pool.Derived == nil || pool.Derived.Holder.Claim != s.Claim {
		return false, err
	}
	s.Holder, s.ranged = pool.Derived.Holder, pool.ID
	s.known, s.prefix, s.since, s.revision = true, pool.CIDR, pool.Derived.HeldSince, revision
	return true, nil
}

// promised returns two facts about a range that a reservation holds: whether a CREATE that was answered with it may
// still succeed, and whether the claim of its name, which was read live, is the one that was answered so.
func (s *suspect) promised(now time.Time) (inFlight bool, later promise.Share) {
	if !promise.Is(s.Claim) {
		return false, promise.None
	}
	if s.later != nil && promise.Of(s.Cluster, s.later) == s.Claim && (s.later.Status.AllocatedCIDR == "" || s.later.Status.AllocatedCIDR == s.prefix.String()) {
		later = promise.Due
	}
	return now.Sub(s.since) < promise.Grace, later
}

// unhold ends the hold of a range, if it is as it was read: a CREATE may have been answered with it since. One that was
// closed for the claim's DELETE is retired.
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

// hand gives a range to the claim that its reservation was made for.
func (r rangeKeeper) hand(ctx context.Context, s *suspect) (bool, error) {
	to := s.Holder
	to.Claim = ledger.ClaimID(s.later.UID)
	if _, err := r.ledger.Hand(ctx, s.ranged, s.Claim, to); err != nil {
		return false, fmt.Errorf("give range %s to %s/%s: %w", s.prefix, s.Namespace, s.Name, err)
	}
	log.FromContext(ctx).Info("the range is its claim's", "prefix", s.prefix)
	return true, nil
}
