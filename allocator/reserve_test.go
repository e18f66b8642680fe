package allocator

import (
	"errors"
	"fmt"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// reservation asks to reserve a block of pool p for a claim that is being created.
func reservation(claim string, length int) ledger.Request {
	r := request("p", claim, length)
	r.Holder.Claim = ledger.ReservationID("tenant", claim)
	return r
}

// confirmation is that of a claim which a cache shows with the block.
func confirmation(b ledger.Block, claim string) Confirmation {
	return Confirmation{Reservation: b.Holder.Claim, Claim: ledger.ClaimID(claim), Prefix: b.Prefix, Answered: b.BoundAt}
}

// reserve reserves, and fails the test if that fails.
func (l *fixture) reserve(r ledger.Request) ledger.Block {
	l.t.Helper()
	b, err := l.Reservations().Reserve(l.t.Context(), r)
	if err != nil {
		l.t.Fatalf("Reserve(%s): %v", r.Holder.Claim, err)
	}
	return b
}

// confirm confirms a reservation, and fails the test unless the claim has the block then.
func (l *fixture) confirm(c Confirmation) ledger.Block {
	l.t.Helper()
	b, ok, err := l.Reservations().Confirm(l.t.Context(), c)
	if err != nil || !ok {
		l.t.Fatalf("Confirm(%+v) = %t, %v", c, ok, err)
	}
	return b
}

// A reservation counts as any block, in capacity and in the invariants, and becomes the
// block of the claim.
func TestReserve(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	b := l.reserve(reservation("web", 28))
	if b.State != ledger.Reserved || b.Prefix != prefix("10.0.0.0/28") || b.Shared {
		t.Errorf("Reserve = %+v, want 10.0.0.0/28, reserved and not shared", b)
	}
	if other := l.bind(request("p", "db", 28)); other.Prefix.Overlaps(b.Prefix) {
		t.Errorf("Bind = %s, which overlaps the reserved %s", other.Prefix, b.Prefix)
	}
	l.sameAsLedger()

	got := l.confirm(confirmation(b, "uid"))
	if got.Holder.Claim != "uid" || got.State != ledger.Bound || got.Prefix != b.Prefix {
		t.Fatalf("Confirm = %+v, want %s bound to uid", got, b.Prefix)
	}
	if found, ok, err := l.Lookup(t.Context(), "uid"); err != nil || !ok || found != got {
		t.Errorf("Lookup(uid) = %+v, %t, %v, want what Confirm returned: %+v", found, ok, err, got)
	}
	if _, ok, err := l.Lookup(t.Context(), b.Holder.Claim); ok || err != nil || l.Reservations().Has(b.Holder.Claim) || l.Reservations().Has("uid") {
		t.Errorf("Lookup of the reservation is %t, %v, want that it is gone", ok, err)
	}
	l.sameAsLedger()
}

// A second Reserve of the same request returns the same block, and marks the reservation as shared.
func TestReserve_Twice(t *testing.T) {
	l := newRoom(t)
	first := l.reserve(reservation("web", 28))
	l.clock.advance(time.Minute)
	second := l.reserve(reservation("web", 28))
	if second.Prefix != first.Prefix || !second.Shared || second.BoundAt.Sub(first.BoundAt) != time.Minute {
		t.Errorf("the second answer is %+v, want %s, shared, a minute after the first", second, first.Prefix)
	}
	must.Be(t, l.ReleaseFor(t.Context(), first, ledger.CauseReleased), ledger.ErrChanged)
	l.sameAsLedger()
}

// One that may have been answered to another claim, too, is confirmed by a live read alone.
func TestConfirm_Shared(t *testing.T) {
	l := newRoom(t)
	old := l.reserve(reservation("web", 28))
	must.Do(t, l.ReleaseFor(t.Context(), old, ledger.CauseReleased))
	l.clock.advance(time.Minute)
	b := l.reserve(reservation("web", 28))
	if b.Shared || b.Prefix != old.Prefix {
		t.Fatalf("Reserve = %+v, want %s, not shared", b, old.Prefix)
	}
	if _, ok, err := l.Reservations().Confirm(t.Context(), confirmation(old, "earlier claim")); ok || !errors.Is(err, ledger.ErrShared) {
		t.Errorf("Confirm for the claim of an earlier answer = %t, %v, want %v", ok, err, ledger.ErrShared)
	}
	b = l.reserve(reservation("web", 28))
	if _, ok, err := l.Reservations().Confirm(t.Context(), confirmation(b, "uid")); ok || !errors.Is(err, ledger.ErrShared) {
		t.Errorf("Confirm after two answers = %t, %v, want %v", ok, err, ledger.ErrShared)
	}
	certain := confirmation(b, "uid")
	certain.Certain, certain.Policy = true, ledger.Retain
	if got := l.confirm(certain); got.Policy != ledger.Retain || !got.Shared || !got.BoundAt.Equal(b.BoundAt) {
		t.Errorf("Confirm after a live read = %+v, want it bound with policy Retain, still shared, as of %s", got, b.BoundAt)
	}
	l.free("uid")
	late := confirmation(l.reserve(reservation("web", 28)), "late")
	late.Answered, late.Certain = time.Time{}, true
	if got := l.confirm(late); !got.Shared {
		t.Errorf("Confirm for a claim without the answer = %+v, want it shared: another may have the answer", got)
	}
	l.sameAsLedger()
}

// Nothing else is confirmed: no other prefix, no bound block, and no second block for a
// claim that has one.
func TestConfirm_Refuses(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	b := l.reserve(reservation("web", 28))
	l.bind(request("p", "uid", 28))
	elsewhere, none, bound := confirmation(b, "other"), confirmation(b, "other"), confirmation(b, "other")
	elsewhere.Prefix = prefix("10.0.0.32/28")
	none.Reservation = ledger.ReservationID("tenant", "none")
	bound.Reservation = "uid"
	for name, c := range map[string]Confirmation{
		"for a claim with a block": confirmation(b, "uid"),
		"of another prefix":        elsewhere,
		"of no reservation":        none,
		"of a bound block":         bound,
	} {
		if _, ok, err := l.Reservations().Confirm(t.Context(), c); ok || err != nil {
			t.Errorf("Confirm %s = %t, %v, want false", name, ok, err)
		}
	}
	must.Fail(l.Reservations().Reserve(t.Context(), request("p", "uid", 28)))(t, ledger.ErrInvalid)
	theirs := reservation("web", 28)
	theirs.Holder.Cluster = "another"
	must.Fail(l.Reservations().Reserve(t.Context(), theirs))(t, ledger.ErrInvalid)
	l.sameAsLedger()
}

// Answers, confirmations and releases of the same reservations at the same time: each block ends with one claim or with none.
func TestReserve_Race(t *testing.T) {
	l := withPool(t, "10.0.0.0/20")
	var work sync.WaitGroup
	for i := range 40 {
		work.Go(func() {
			r := reservation(fmt.Sprint("c", i%8), 28)
			b, err := l.Reservations().Reserve(t.Context(), r)
			if errors.Is(err, ledger.ErrTooOften) {
				return
			}
			if err != nil {
				t.Errorf("Reserve(%s) = %v", r.Holder.Claim, err)
				return
			}
			c := confirmation(b, fmt.Sprint("uid", i))
			c.Certain = i%3 == 0
			if _, _, err := l.Reservations().Confirm(t.Context(), c); err != nil && !errors.Is(err, ledger.ErrShared) && !errors.Is(err, ledger.ErrChanged) {
				t.Errorf("Confirm(%+v) = %v", c, err)
			}
			if i%5 == 0 {
				if err := l.Release(t.Context(), r.Holder.Claim); err != nil && !errors.Is(err, ledger.ErrChanged) {
					t.Errorf("Release(%s) = %v", r.Holder.Claim, err)
				}
			}
		})
	}
	work.Wait()
	l.sameAsLedger()
}

// A workspace has so many reservations and no more; a repeated answer takes none.
func TestReserve_Limit(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	for i := range space.MaxReservations {
		l.reserve(reservation(fmt.Sprint("c", i), 28))
	}
	for range 2 {
		must.Fail(l.Reservations().Reserve(t.Context(), reservation("one more", 28)))(t, ledger.ErrReservations)
		if _, err := l.Reservations().Reserve(t.Context(), reservation("c7", 28)); err != nil {
			t.Errorf("Reserve once more for the same claim = %v, want its block", err)
		}
		l.again()
	}
	theirs := reservation("theirs", 28)
	theirs.Holder.Cluster, theirs.Holder.Claim = "another", ledger.ReservationID("another", "theirs")
	l.reserve(theirs)
	must.Do(t, l.Release(t.Context(), ledger.ReservationID("tenant", "c7")))
	if _, err := l.Reservations().Reserve(t.Context(), reservation("one more", 28)); err != nil {
		t.Errorf("Reserve after one was freed = %v, want a block", err)
	}
}

// A CREATE that fails each time does not keep its block for as long as it is repeated. It counts from
// the first answer.
func TestReserve_AgainAndAgain(t *testing.T) {
	c := newClock()
	l := withPool(t, "10.0.0.0/28")
	l.swap(func(h *engine.Hooks) { h.Now = c.now })
	first := l.reserve(reservation("web", 28))
	last := first
	for c.now().Sub(first.BoundAt) < space.Renewable-time.Minute {
		c.advance(time.Minute)
		last = l.reserve(reservation("web", 28))
		if since, ok := l.Reservations().Since(first.Holder.Claim); !ok || !since.Equal(first.BoundAt) {
			t.Errorf("after %s the reservation is there since %s, %t; want %s", c.now().Sub(first.BoundAt), since, ok, first.BoundAt)
		}
	}
	c.advance(time.Minute)
	for _, a := range []*Allocator{l.Allocator, l.Allocator} {
		if b, err := a.Reservations().Reserve(t.Context(), reservation("web", 28)); !errors.Is(err, ledger.ErrLapsing) {
			t.Errorf("Reserve = %+v, %v after %s; want %v", b, err, space.Renewable, ledger.ErrLapsing)
		}
	}
	if now, _, err := l.Lookup(t.Context(), first.Holder.Claim); err != nil || !now.BoundAt.Equal(last.BoundAt) {
		t.Errorf("Lookup = %+v, %v; want the last answer at %s, as before", now, err, last.BoundAt)
	}
	must.Do(t, l.Release(t.Context(), first.Holder.Claim))
	if b := l.reserve(reservation("web", 28)); b.Prefix != first.Prefix {
		t.Errorf("Reserve = %s when it has lapsed, want %s", b.Prefix, first.Prefix)
	}
}

// A preview is what a reservation would get, and takes nothing.
func TestPreview(t *testing.T) {
	l := withPool(t, "10.0.0.0/28")
	for range 2 {
		if p, err := l.Reservations().Preview(t.Context(), reservation("web", 29)); err != nil || p != prefix("10.0.0.0/29") {
			t.Errorf("Preview = %s, %v, want 10.0.0.0/29", p, err)
		}
	}
	failsAs[*ledger.ExhaustedError](l.Reservations().Preview(t.Context(), reservation("web", 20)))(t)
	if b := l.reserve(reservation("web", 29)); b.Prefix != prefix("10.0.0.0/29") {
		t.Errorf("Reserve = %s, want what Preview said: 10.0.0.0/29", b.Prefix)
	}
	l.sameAsLedger()
}

// A reservation counts against the limits of its workspace, and goes on counting when it is
// confirmed.
func TestReserve_Quota(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	limited := func(claim string) ledger.Request {
		r := reservation(claim, 28)
		r.Class, r.Limits = "standard", ledger.Limits{Class: big.NewInt(16)}
		return r
	}
	b := l.reserve(limited("first"))
	for _, step := range []string{"reserved", "confirmed"} {
		failsAs[*ledger.QuotaError](l.Reservations().Reserve(t.Context(), limited("second")))(t)
		if step == "reserved" {
			l.confirm(confirmation(b, "uid"))
		}
	}
}
