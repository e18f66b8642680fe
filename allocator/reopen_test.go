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

// closedUntilOf returns the time that Begin has set; zero: the pool is open, or is gone.
func closedUntilOf(a *Allocator, id ledger.PoolID) time.Time {
	if p, ok := a.Pools().Get(id); ok {
		return p.Closing.Until
	}
	return time.Time{}
}

// Reopen names the closing that it ends. It does not end a later one.
func TestReopen_LeavesALaterRelease(t *testing.T) {
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

// A pool is closed, and opened again, without a word in the ledger: the process that has the office alone knows of it. The next one finds the
// pool open, and held as before.
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

// That a pool is closed is told of it only while that is so, and by the process that has the office: another one may have bound there.
func TestConfirm_AClosedPool(t *testing.T) {
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

// A process ends while it retires a closed pool in which addresses cool. The next one gives that to nobody: it goes when the claim that
// holds it does.
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
