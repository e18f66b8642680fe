package allocator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Reserve is Bind for a claim that is being created and has no UID yet. The holder is a
// reservation, with the claim's namespace and name. The block counts as any other, for
// capacity, limits and the invariants, until Confirm gives it to the claim or Release frees it.
//
// Reserve is idempotent by the reservation's ID. A second answer marks the block as Shared
// and renews its BoundAt, for some minutes from its first answer on; then ErrLapsing refuses it. Its other
// refusals are those of Bind, ErrReservations and ErrTooOften. A reservation never takes room that a claim on the
// waiting list could use.
func (rs Reservations) Reserve(ctx context.Context, req ledger.Request) (ledger.Block, error) {
	ctx, span := engine.StartSpan(ctx, "reserve")
	block, err := rs.reserve(ctx, req)
	engine.EndSpan(span, err)
	return block, err
}

func (rs Reservations) reserve(ctx context.Context, req ledger.Request) (ledger.Block, error) {
	id := req.Holder.Claim
	if cluster, ok := ledger.ReservedBy(id); !ok || cluster != req.Holder.Tenant() {
		return ledger.Block{}, fmt.Errorf("%w: %s is not the ID of a reservation of workspace %s", ledger.ErrInvalid, id, req.Holder.Tenant())
	}
	if err := rs.a.table.Reservations.Begin(req.Holder.Tenant(), id, rs.a.engine.Hooks.Now()); err != nil {
		return ledger.Block{}, err
	}
	defer rs.a.table.Reservations.End(req.Holder.Tenant())
	for {
		block, had, err := rs.a.bind(ctx, wanted{Request: req, reserves: true})
		if err != nil || !had {
			return block, err
		}
		block, had, err = rs.a.Retained().amend(ctx, id, func(h *store.Holding) { h.Shared, h.BoundAt = true, store.Stamped(rs.a.engine.Hooks.Now()) })
		if err != nil || had {
			return block, err
		}
		// It was confirmed or freed meanwhile.
	}
}

// Confirmation names a reservation and the claim that it was made for.
type Confirmation struct {
	Reservation ledger.ClaimID
	// Claim gets the block. Policy is its reclaim policy now; empty: as reserved.
	Claim  ledger.ClaimID
	Policy ledger.ReclaimPolicy
	// Prefix is the block with which the CREATE of the claim was answered. Answered is when, to
	// the second: the reservation's BoundAt, as the claim shows it.
	Prefix   netip.Prefix
	Answered time.Time
	// Certain: a live read has shown the claim with that block. Otherwise ErrShared refuses a
	// reservation with which another CREATE may have been answered, too.
	Certain bool
}

// Confirm gives the block of a reservation to the claim that was created. ok is false if
// there is no such reservation of that prefix, or if the claim has a block already, which
// Lookup returns.
//
// Successive claims of one name and spec have the same reservation ID. A cache may still show an
// earlier claim than that of the reservation. The time of the answer tells them apart. Where it
// cannot, Confirm returns ErrShared, and the caller needs a live read. The block stays Shared, with
// its BoundAt: another CREATE that was answered with it may still succeed.
func (rs Reservations) Confirm(ctx context.Context, c Confirmation) (b ledger.Block, ok bool, err error) {
	if err := errors.Join(ledger.CheckID("reservation", c.Reservation), ledger.CheckID("claim", c.Claim)); err != nil {
		return ledger.Block{}, false, err
	}
	var last int64
	for {
		r, ok, err := rs.a.store.RecordOf(ctx, c.Reservation)
		if err != nil || !ok {
			return ledger.Block{}, false, err
		}
		h := *r.Held
		if h.State != ledger.Reserved || r.Prefix != c.Prefix {
			return ledger.Block{}, false, nil
		}
		if !c.Certain && (h.Shared || !sameSecond(h.BoundAt, c.Answered)) {
			return ledger.Block{}, false, ledger.ErrShared
		}
		old := r.Block()
		h.Claim, h.Policy, h.State, h.Until = c.Claim, cmp.Or(c.Policy, h.Policy), ledger.Bound, time.Time{}
		h.Shared = h.Shared || !sameSecond(h.BoundAt, c.Answered)
		r.Held = &h
		done, err := rs.a.engine.Change(ctx, old, engine.Op{Lane: old.Holder.Tenant(), Plan: handOver(old, r, farewell{})})
		switch {
		case err == nil || errors.Is(err, errBound):
			return done.Block, err == nil, nil
		case !errors.Is(err, ledger.ErrChanged) || last == old.Revision:
			return ledger.Block{}, false, err
		}
		last = old.Revision
	}
}

func sameSecond(a, b time.Time) bool {
	return a.Truncate(time.Second).Equal(b.Truncate(time.Second))
}

// handOver plans that a block passes from its holder to another claim, that of the next record. parting records the
// former one.
func handOver(old ledger.Block, next store.Record, parting farewell) func(space.View) (engine.Plan, error) {
	value := next.Encode()
	return func(v space.View) (engine.Plan, error) {
		if err := present(v, old); err != nil {
			return engine.Plan{}, err
		}
		changes := append(store.EndTenure(parting.record),
			v.Keys.PutClaim(next.Held.Claim, old.Prefix).At(0, errBound),
			v.Keys.PutBlock(next, value).At(old.Revision, ledger.ErrChanged),
			v.Keys.RemoveClaim(old.Holder.Claim))
		return engine.Plan{Changes: changes, Answer: engine.Answer{Block: next.Block()}}, nil
	}
}
