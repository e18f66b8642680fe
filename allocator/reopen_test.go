package allocator

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// closedUntilOf returns the time until which a pool is closed; zero: the pool is open, or is gone.
func closedUntilOf(a *Allocator, id ledger.PoolID) time.Time {
	if p, ok := a.Pools().Get(id); ok {
		return p.Closing.Until
	}
	return time.Time{}
}

// Reopen ends the closing that it names by its time, and not a later one.
func TestReopen_LeavesALaterClosing(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	d, until := l.Derived(), time.Now().Add(time.Minute)
	p := l.provision("p", 24, held("a"))
	for i, first := range []bool{true, false} {
		if got := must.Get(d.Begin(t.Context(), p.ID, "range", until.Add(time.Duration(i)*time.Second)))(t); got != first {
			t.Errorf("Begin number %d says that it is the first: %t", i+1, got)
		}
	}
	must.Be(t, d.Reopen(t.Context(), p.ID, until), ledger.ErrChanged)
	if now, _ := l.Pools().Get(p.ID); !now.Closed() {
		t.Error("the later release has ended")
	}
	for range 2 {
		must.Do(t, d.Reopen(t.Context(), p.ID, until.Add(time.Second)))
	}
	l.bind(request(p.ID, "endpoint", 32))
}

// Begin and Reopen write nothing to the ledger: only the memory of the process that has the office knows that a pool is
// closed. The next process finds the pool open, and held as before.
func TestBegin_WritesNothing(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	d, until := l.Derived(), time.Now().Add(time.Minute)
	p := l.provision("p", 24, held("a"))
	before := l.written()
	must.Get(d.Begin(t.Context(), p.ID, "range", until))(t)
	must.Do(t, d.Reopen(t.Context(), p.ID, until))
	must.Get(d.Begin(t.Context(), p.ID, "range", until))(t)
	if after := l.written(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the ledger is %v, and it was %v", after, before)
	}
	l.again()
	if now, ok := l.Derived().Held("range"); !ok || now.ID != p.ID || now.Closed() {
		t.Errorf("the next process has %+v, which is held: %t; want it held and open", now, ok)
	}
	must.Be(t, l.Derived().Confirm(t.Context(), p.ID, until), ledger.ErrChanged)
	l.bind(request(p.ID, "endpoint", 32))
	l.sameAsLedger()
}

// Confirm succeeds only while the pool is closed until the given time, and only for the process that has the office:
// another process may have bound a block in the pool.
func TestConfirm_NeedsAClosedPoolAndTheOffice(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	d, until := l.Derived(), time.Now().Add(time.Minute)
	p := l.provision("p", 24, held("a"))
	must.Be(t, d.Confirm(t.Context(), p.ID, until), ledger.ErrChanged)
	must.Get(d.Begin(t.Context(), p.ID, "range", until))(t)
	must.Do(t, d.Confirm(t.Context(), p.ID, until))
	must.Be(t, d.Confirm(t.Context(), p.ID, until.Add(time.Second)), ledger.ErrChanged)
	next := l.open()
	must.Get(next.Bind(t.Context(), request(p.ID, "endpoint", 32)))(t)
	must.Be(t, d.Confirm(t.Context(), p.ID, until), ledger.ErrDeposed)
}

// A process ends while it retires a closed pool in which addresses cool. The next process gives the pool to no claim.
// It retires the pool when the claim that holds it is gone.
func TestRetire_LeavesARangeToTheNextProcess(t *testing.T) {
	i := newIcebox(t)
	p := i.provision("p", 28, held("a"))
	i.cooldown = time.Hour
	i.bind(request(p.ID, "former", 32))
	i.free("former")
	must.Get(i.Derived().Begin(t.Context(), p.ID, "range", i.clock.now().Add(time.Minute)))(t)
	ctx, cancel := context.WithCancel(t.Context())
	i.swap(func(h *engine.Hooks) {
		h.AfterCommit = func(ledger.SpaceID) error { cancel(); return nil }       // it drains now
		h.BeforeCommit = func(ledger.SpaceID) error { return context.Cause(ctx) } // and commits nothing more
	})
	must.Be(t, i.Derived().Retire(ctx, p.ID, "range"), context.Canceled)
	i.again()
	again := func() error {
		_, err := i.Derived().Provision(t.Context(), ledger.Request{Pool: "p", Length: 28}, held("a"), nil)
		return err
	}
	if left := wantA[*ledger.ReleasingError](t, again()); left.Pool != p.ID {
		t.Errorf("pool %s is being released, want %s", left.Pool, p.ID)
	}
	must.Do(t, i.Derived().Drop(t.Context(), p.ID, "range", time.Time{}))
	i.waitGone(p.ID)
	must.Do(t, again())
	i.sameAsLedger()
}
