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
// refusals are those of Bind, ErrReservations and ErrTooOften. A reservation never takes room that a claim on the waiting list could use.
func (a *Allocator) Reserve(ctx context.Context, req Request) (Block, error) {
	ctx, span := engine.StartSpan(ctx, "reserve")
	block, err := a.reserve(ctx, req)
	engine.EndSpan(span, err)
	return block, err
}

func (a *Allocator) reserve(ctx context.Context, req Request) (Block, error) {
	id := req.Holder.Claim
	if cluster, ok := ledger.ReservedBy(id); !ok || cluster != req.Holder.Cluster {
		return Block{}, fmt.Errorf("%w: %s is not the ID of a reservation of workspace %s", ErrInvalid, id, req.Holder.Cluster)
	}
	if err := a.table.Reservations.Begin(req.Holder.Cluster, id, a.engine.Hooks.Now()); err != nil {
		return Block{}, err
	}
	defer a.table.Reservations.End(req.Holder.Cluster)
	for {
		block, had, err := a.bindOnce(ctx, wanted{Request: req, reserves: true})
		if err != nil || !had {
			return block, err
		}
		block, had, err = a.amend(ctx, id, func(h *store.Holding) { h.Shared, h.BoundAt = true, store.Stamped(a.engine.Hooks.Now()) })
		if err != nil || had {
			return block, err
		}
		// It was confirmed or freed meanwhile.
	}
}

// HasReservation reports whether the ledger has a reservation, as of memory. It may lack what the
// watch has not brought yet.
func (a *Allocator) HasReservation(id ClaimID) bool {
	_, ok := a.ReservedSince(id)
	return ok
}

// ReservedSince is when the first CREATE was answered with a reservation (BoundAt: the last), or, if that
// was before the ledger was opened, the last one before it. ok is false if the ledger does not have the reservation,
// as of memory.
func (a *Allocator) ReservedSince(id ClaimID) (since time.Time, ok bool) {
	cluster, ok := ledger.ReservedBy(id)
	if !ok {
		return time.Time{}, false
	}
	return a.table.Reservations.Since(cluster, id)
}

// Reserved counts the reservations of each workspace, as of memory.
func (a *Allocator) Reserved() map[ClusterName]int { return a.table.Reservations.Count() }

// Preview returns the block that Reserve would give now to a holder that has none, and reserves nothing.
// It does not ask the ledger.
func (a *Allocator) Preview(ctx context.Context, req Request) (netip.Prefix, error) {
	if err := checkRequest(req); err != nil {
		return netip.Prefix{}, err
	}
	for {
		if err := a.secure(ctx, req); err != nil {
			return netip.Prefix{}, err
		}
		s, err := a.engine.Locate(ctx, req.Pool)
		if err != nil {
			return netip.Prefix{}, err
		}
		if prefix, err := preview(s, req); !errors.Is(err, space.ErrUnsecured) {
			return prefix, err
		}
	}
}

func preview(s *engine.Worker, req Request) (netip.Prefix, error) {
	s.Lock()
	defer s.Unlock()
	p := s.Pool(req.Pool)
	if p == nil {
		return netip.Prefix{}, ErrUnknownPool
	}
	if err := s.Unfit(); err != nil {
		return netip.Prefix{}, err
	}
	at, err := bind{wanted: wanted{Request: req, reserves: true}}.find(s.View(), p)
	return at.prefix, err
}

// Confirmation names a reservation and the claim that it was made for.
type Confirmation struct {
	Reservation ClaimID
	// Claim gets the block. Policy is its reclaim policy now; empty: as reserved.
	Claim  ClaimID
	Policy ReclaimPolicy
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
func (a *Allocator) Confirm(ctx context.Context, c Confirmation) (b Block, ok bool, err error) {
	if err := errors.Join(ledger.CheckID("reservation", c.Reservation), ledger.CheckID("claim", c.Claim)); err != nil {
		return Block{}, false, err
	}
	var last int64
	for {
		r, ok, err := a.store.RecordOf(ctx, c.Reservation)
		if err != nil || !ok {
			return Block{}, false, err
		}
		mine := r.Of(c.Reservation)
		h := r.Holdings[mine]
		if h.State != Reserved || r.Prefix != c.Prefix {
			return Block{}, false, nil
		}
		if !c.Certain && (h.Shared || !sameSecond(h.BoundAt, c.Answered)) {
			return Block{}, false, ErrShared
		}
		old := r.Block(h)
		h.Claim, h.Policy, h.State, h.Until = c.Claim, cmp.Or(c.Policy, h.Policy), Bound, time.Time{}
		h.Shared = h.Shared || !sameSecond(h.BoundAt, c.Answered)
		r.Holdings[mine] = h
		done, err := a.engine.Change(ctx, old, engine.Op{Lane: old.Holder.Cluster, Plan: handOver(old, r, h, farewell{})})
		switch {
		case err == nil:
			return done.Block, true, nil
		case errors.Is(err, errBound):
			return Block{}, false, nil
		case !errors.Is(err, ErrChanged) || last == old.Revision:
			return Block{}, false, err
		}
		last = old.Revision
	}
}

func sameSecond(a, b time.Time) bool {
	return a.Truncate(time.Second).Equal(b.Truncate(time.Second))
}

// handOver plans that a block passes from its holder to another claim. to is the new holding in the next record. parting
// records the former one.
func handOver(old Block, next store.Record, to store.Holding, parting farewell) func(space.View) (engine.Plan, error) {
	value := next.Encode()
	return func(v space.View) (engine.Plan, error) {
		if err := present(v, old); err != nil {
			return engine.Plan{}, err
		}
		changes := append(store.EndTenure(parting.record),
			v.Keys.PutClaim(to.Claim, old.Prefix).At(0, errBound),
			v.Keys.PutBlock(next, value).At(old.Revision, ErrChanged),
			v.Keys.RemoveClaim(old.Holder.Claim))
		return engine.Plan{Changes: changes, Answer: engine.Answer{Block: next.Block(to)}}, nil
	}
}
