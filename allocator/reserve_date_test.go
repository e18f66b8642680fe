package allocator

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// TestReserve_AgainInOneSecond: reservations of one ID that follow each other within a second show
// different seconds. So a claim that is gone does not take the one of its
// successor.
func TestReserve_AgainInOneSecond(t *testing.T) {
	c := newClock()
	l := newLedger(t)
	l.swap(func(h *engine.Hooks) { h.Now = c.now })
	l.pool("p", "10.0.0.0/24")
	var before []Confirmation
	for i := range 4 {
		b := l.reserve(reservation("web", 28))
		for _, former := range before {
			if got, ok, err := l.Reservations().Confirm(t.Context(), former); ok || !errors.Is(err, ledger.ErrShared) {
				t.Errorf("reservation %d: Confirm for a former claim = %+v, %t, %v; want %v", i, got, ok, err, ledger.ErrShared)
			}
		}
		own := confirmation(b, fmt.Sprint("claim-", i))
		own.Answered = own.Answered.Truncate(time.Second) // as a claim shows it
		if got, ok, err := l.Reservations().Confirm(t.Context(), own); err != nil || !ok || got.Shared {
			t.Errorf("reservation %d: Confirm = %+v, %t, %v; want it bound, and not shared", i, got, ok, err)
		}
		l.free(own.Claim)
		before = append(before, own)
		c.advance(400 * time.Millisecond)
	}
	l.sameAsLedger()
}

// Claims of one name that are created and deleted in a loop are answered with a date that is near the clock, or not at
// all. The history has none of them in the future.
func TestReserve_ManyTimesWithinASecond(t *testing.T) {
	for name, cooldown := range map[string]time.Duration{"without a cooldown": 0, "with a cooldown": time.Hour} {
		t.Run(name, func(t *testing.T) {
			c := newChronicle(t)
			c.cooldown = cooldown
			answered, last := 0, time.Time{}
			for range 300 {
				c.clock.advance(time.Second / 300)
				b, err := c.Reservations().Reserve(t.Context(), reservation("web", 28))
				if errors.Is(err, ledger.ErrTooOften) {
					continue
				}
				if err != nil {
					t.Fatalf("Reserve: %v", err)
				}
				answered++
				if ahead := b.BoundAt.Sub(c.clock.now()); ahead > space.MaxLead || sameSecond(b.BoundAt, last) {
					t.Errorf("answer %d is dated %s, %s ahead, after one of %s; want another second, %s ahead at most", answered, b.BoundAt, ahead, last, space.MaxLead)
				}
				last = b.BoundAt
				if bound := c.confirm(confirmation(b, "uid")); bound.Begun().After(c.clock.now()) {
					t.Errorf("tenure %d begins at %s, and it is %s", answered, bound.Begun(), c.clock.now())
				}
				c.free("uid")
			}
			if answered < 2 {
				t.Errorf("%d of 300 are answered, want two or more", answered)
			}
			c.clock.advance(space.MaxLead)
			c.reserve(reservation("web", 28))
		})
	}
}

// A CREATE that is repeated is answered with the reservation that the ledger has, although a new one would be refused
// for its date.
func TestReserve_TooOftenButThere(t *testing.T) {
	c := newChronicle(t)
	var b ledger.Block
	for range 3 { // in the second of now, and in the next two
		if b.Prefix.IsValid() {
			c.free(b.Holder.Claim)
		}
		b = c.reserve(reservation("web", 28))
	}
	got, err := c.Reservations().Reserve(t.Context(), reservation("web", 28))
	if err != nil || got.Prefix != b.Prefix || !got.Shared {
		t.Errorf("Reserve = %+v, %v; want %s, shared", got, err, b.Prefix)
	}
}

// A reservation that is refused for its date takes no room from the waiting list.
func TestReserve_TooOftenTakesNoHold(t *testing.T) {
	c := newChronicle(t)
	r := c.room
	for range 4 { // in the second of now, in the next two, and in none
		b, err := r.Reservations().Reserve(t.Context(), reservation("web", 28))
		if err != nil && !errors.Is(err, ledger.ErrTooOften) {
			t.Fatalf("Reserve: %v", err)
		}
		if err == nil {
			r.free(b.Holder.Claim)
		}
	}
	req := reservation("web", 25)
	req.Since = c.clock.now()
	kept := r.bind(request("p", "kept", 24))
	r.Waits().Add(req)
	r.free(kept.Holder.Claim)
	must.Fail(r.Reservations().Reserve(t.Context(), req))(t, ledger.ErrTooOften)
	var held bool
	r.table.Visit("p", func(p *space.Pool) { _, held = p.HeldFor(req) })
	if !held {
		t.Error("the room that was held for the claim is not held any more")
	}
}
