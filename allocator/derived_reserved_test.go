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

// A workspace has so many reservations and no more, those of blocks and of ranges together, as every replica counts them.
func TestHold_ReservationsAreBounded(t *testing.T) {
	l := newLedger(t)
	other := l.open()
	l.pool("p", "10.0.0.0/16")
	reserved := func(n int) ledger.Holder {
		h := claim(ledger.ReservationID("tenant", fmt.Sprint(n)))
		h.Name = "range"
		return h
	}
	made := func(on *Allocator, n int) error {
		p := ofNetwork("net", fmt.Sprint(n))
		p.Derived.Holder = reserved(n)
		_, err := on.Derived().Provision(t.Context(), ledger.Request{Pool: "p", Length: 28}, p, nil)
		return err
	}
	l.reserve(reservation("web", 28))
	for n := 1; n < space.MaxReservations; n++ {
		must.Do(t, made(l.Allocator, n))
	}
	other.catchUp(t)
	free := l.provision("p", 28, ofNetwork("net", "free"))
	for _, a := range []*Allocator{l.Allocator, other, l.open()} {
		must.Fail(a.Derived().Hold(t.Context(), free.ID, reserved(0)))(t, ledger.ErrReservations)
		must.Be(t, made(a, 0), ledger.ErrReservations)
	}
	of := ofNetwork("net", "7").Derived.ID()
	must.Do(t, func() error { _, err := l.Derived().Hand(t.Context(), of, reserved(7).Claim, claim("uid")); return err }())
	if _, err := l.Derived().Hold(t.Context(), free.ID, reserved(0)); err != nil {
		t.Errorf("Hold when one was confirmed = %v", err)
	}
}

// A CREATE that fails each time does not hold a range for as long as it is repeated.
func TestHold_AgainAndAgain(t *testing.T) {
	c := newClock()
	l := newLedger(t)
	l.swap(func(h *engine.Hooks) { h.Now = c.now })
	l.pool("p", "10.0.0.0/16")
	p, by := l.provision("p", 24, ofNetwork("net", "a")), claim(ledger.ReservationID("tenant", "r"))
	d := l.Derived()
	for c.now().Sub(p.RegisteredAt) < space.Renewable {
		held, err := d.Hold(t.Context(), p.ID, by)
		if err != nil || !held.Derived.HeldSince.Equal(c.now().Truncate(time.Millisecond)) {
			t.Fatalf("Hold after %s = %+v, %v; want it held since now", c.now().Sub(p.RegisteredAt), held.Derived, err)
		}
		c.advance(time.Minute)
	}
	if _, err := d.Hold(t.Context(), p.ID, by); !errors.Is(err, ledger.ErrLapsing) {
		t.Errorf("Hold = %v after %s, want %v", err, space.Renewable, ledger.ErrLapsing)
	}
	must.Be(t, d.Drop(t.Context(), p.ID, by.Claim, p.RegisteredAt), ledger.ErrChanged)
	held, _ := d.Held(by.Claim)
	must.Do(t, d.Drop(t.Context(), p.ID, by.Claim, held.Derived.HeldSince))
	if _, err := d.Hold(t.Context(), p.ID, by); err != nil {
		t.Errorf("Hold when it has lapsed = %v", err)
	}
}

// A workspace is counted the address spaces that it has in pools of others, and the pools for all workspaces that it was the first to
// need, as every replica knows them.
func TestCount_PoolsBesideTheOwn(t *testing.T) {
	l := newLedger(t)
	other := l.open()
	l.pool("p", "10.0.0.0/16")
	l.pool("flat", "10.1.0.0/16")
	p, ok := l.Pools().Get("p")
	if !ok {
		t.Fatal("the pool is not known")
	}
	before := l.Pools().Count(p.Cluster)
	shared := ledger.Pool{Cluster: p.Cluster, Name: "net-a", Derived: &ledger.Derived{Class: "net", Scope: network("a"), By: "first"}}
	shared = l.provision("p", 24, shared)
	again := *shared.Derived
	again.By = "second"
	l.provision("p", 24, ledger.Pool{Cluster: p.Cluster, Name: "net-a", Derived: &again})
	space := must.Get(l.Derived().Space(t.Context(), "flat", "first", network("a")))(t)
	other.catchUp(t)
	for _, a := range []*Allocator{l.Allocator, other, l.open()} {
		if first, second, own := a.Pools().Count("first"), a.Pools().Count("second"), a.Pools().Count(p.Cluster); first != 2 || second != 0 || own != before+2 {
			t.Errorf("counted %d, %d and %d, want 2, 0 and %d", first, second, own, before+2)
		}
	}
	must.Do(t, l.Pools().Retire(t.Context(), space.ID))
	must.Do(t, l.Pools().Retire(t.Context(), shared.ID))
	if n := l.Pools().Count("first"); n != 0 {
		t.Errorf("counted %d when they are gone, want 0", n)
	}
}
