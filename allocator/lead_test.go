package allocator

import (
	"context"
	"errors"
	"math/big"
	"runtime"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
)

// lead makes an Allocator the leader until the test ends, and returns what ends that.
// complete says that its waiting lists are complete.
func (l *fixture) lead(a *Allocator) (complete, end func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if err := a.Lead(ctx, done); err != nil {
			l.t.Errorf("Lead = %v, want nil", err)
		}
	}()
	for engine.Leadership(a.engine.Leads.Load()) == engine.Following && l.t.Context().Err() == nil {
		runtime.Gosched()
	}
	end = func() { cancel(); <-ended }
	l.t.Cleanup(end)
	return func() { close(done) }, end
}

// marked waits until an Allocator knows which writer has the waiting list of pool p.
func (l *fixture) marked(a *Allocator, writer string) {
	l.t.Helper()
	a.waitFor(l.t, "p", func(s *engine.Worker) bool { return s.Marked == writer })
}

// Where claims wait, only the leader reserves: another Allocator would give room to a
// newcomer that an older claim could use.
func TestLead_OthersDoNotReserveWhereClaimsWait(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/28")
	other := l.open()
	complete, _ := l.lead(l.Allocator)
	complete()
	kept := l.bind(request("p", "kept", 29))
	l.bind(request("p", "full", 29))
	waits := request("p", "waits", 28)
	l.Wait(waits)
	l.marked(other, l.table.Writer)

	if err := l.ReleaseIf(t.Context(), kept); err != nil {
		t.Fatalf("ReleaseIf: %v", err)
	}
	other.catchUp(t)
	if b, err := other.Reserve(t.Context(), reservation("new", 29)); !errors.Is(err, ErrOthersWait) {
		t.Errorf("Reserve beside a leader with waiters = %+v, %v, want %v", b, err, ErrOthersWait)
	}
	if b, err := other.Preview(t.Context(), reservation("new", 29)); !errors.Is(err, ErrOthersWait) {
		t.Errorf("Preview beside a leader with waiters = %s, %v, want %v", b, err, ErrOthersWait)
	}
	if _, err := l.Reserve(t.Context(), reservation("new", 29)); err != nil {
		t.Errorf("the leader's Reserve of room that no waiter can use = %v, want a block", err)
	}

	l.Withdraw("waits")
	l.marked(other, "")
	if _, err := other.Reserve(t.Context(), reservation("new", 29)); err != nil {
		t.Errorf("Reserve after the last waiter left = %v, want a block", err)
	}
	l.sameAsLedger(other)
}

// Where there is no room, everybody says so: no waiter changes that.
func TestLead_OthersRefuseWhereClaimsWait(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/28")
	other := l.open()
	complete, _ := l.lead(l.Allocator)
	complete()
	full := l.bind(request("p", "full", 28))
	l.Wait(request("p", "waits", 28))
	l.marked(other, l.table.Writer)
	exact := reservation("exact", 28)
	exact.Exact = full.Prefix
	for name, a := range map[string]*Allocator{"the leader": l.Allocator, "another": other} {
		if b, err := a.Reserve(t.Context(), reservation("new", 28)); !isExhausted(err) {
			t.Errorf("Reserve by %s in a full pool = %+v, %v, want an ExhaustedError", name, b, err)
		}
		if b, err := a.Preview(t.Context(), reservation("new", 28)); !isExhausted(err) {
			t.Errorf("Preview by %s in a full pool = %s, %v, want an ExhaustedError", name, b, err)
		}
		if b, err := a.Reserve(t.Context(), exact); !errors.Is(err, ErrInUse) {
			t.Errorf("Reserve by %s of a prefix in use = %+v, %v, want %v", name, b, err, ErrInUse)
		}
	}
}

func isExhausted(err error) bool {
	_, ok := errors.AsType[*ExhaustedError](err)
	return ok
}

// The mark is in the ledger before anything that is freed for a waiter: an Allocator that
// has not heard of it conflicts.
func TestLead_AnAllocatorThatLagsBehind(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/28")
	watch := &cutter{Watcher: l.etcd.Client().Watcher}
	other := l.through(l.etcd.Client().KV, watch)
	complete, _ := l.lead(l.Allocator)
	complete()
	full := l.bind(request("p", "full", 28))
	other.catchUp(t)
	watch.set(true)
	l.Wait(request("p", "waits", 28))
	if err := l.ReleaseIf(t.Context(), full); err != nil {
		t.Fatalf("ReleaseIf: %v", err)
	}
	answer := make(chan error)
	go func() {
		_, err := other.Reserve(t.Context(), reservation("new", 28))
		answer <- err
	}()
	watch.set(false)
	if err := <-answer; !errors.Is(err, ErrOthersWait) {
		t.Errorf("Reserve of what was freed for a waiter = %v, want %v", err, ErrOthersWait)
	}
}

// A new leader does not know yet who waits. Until it does, it reserves nothing in the
// spaces that the former leader has marked.
func TestLead_ANewLeader(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/28")
	next := l.open()
	complete, end := l.lead(l.Allocator)
	complete()
	full := l.bind(request("p", "full", 28))
	l.Wait(request("p", "waits", 28))
	l.marked(next, l.table.Writer)
	end()
	l.Withdraw("waits") // as if its process was gone

	complete, _ = l.lead(next)
	if err := next.ReleaseIf(t.Context(), full); err != nil {
		t.Fatalf("ReleaseIf: %v", err)
	}
	if b, err := next.Reserve(t.Context(), reservation("new", 28)); !errors.Is(err, ErrOthersWait) {
		t.Errorf("Reserve by a leader that is not complete = %+v, %v, want %v", b, err, ErrOthersWait)
	}
	next.Wait(request("p", "waits", 28))
	complete()
	l.marked(next, next.table.Writer)
	var exhausted *ExhaustedError
	if b, err := next.Reserve(t.Context(), reservation("new", 28)); !errors.As(err, &exhausted) {
		t.Errorf("Reserve of what is held for the waiter = %+v, %v, want ExhaustedError", b, err)
	}
	if _, err := next.Bind(t.Context(), request("p", "waits", 28)); err != nil {
		t.Errorf("Bind of the waiter = %v, want its block", err)
	}
	l.marked(next, "")
	l.sameAsLedger(next)
}

// Claims that wait for their own quota take no room, and keep nobody from reserving.
func TestLead_WhoIsOverItsQuota(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
	other := l.open()
	complete, _ := l.lead(l.Allocator)
	complete()
	over := request("p", "over", 28)
	over.Class, over.Limits = "standard", Limits{Class: big.NewInt(8)}
	l.Wait(over)
	l.waitIdle(t)
	other.catchUp(t)
	if _, err := other.Reserve(t.Context(), reservation("new", 28)); err != nil {
		t.Errorf("Reserve beside a claim over its quota = %v, want a block", err)
	}
}

// A mark that etcd did not take is written again after a pause, and a pool that is retired
// leaves none.
func TestLead_MarkIsWrittenAgain(t *testing.T) {
	c := newClock()
	l := newLedger(t)
	l.pool("p", "10.0.0.0/28")
	lost := errors.New("lost")
	fails := false
	l.swap(func(h *engine.Hooks) {
		h.After = c.after
		h.BeforeCommit = func(SpaceID) error {
			if fails {
				fails = false
				return lost
			}
			return nil
		}
	})
	complete, _ := l.lead(l.Allocator)
	complete()
	full := l.bind(request("p", "full", 28))
	fails = true
	l.Wait(request("p", "waits", 28))
	l.waitFor(t, "p", func(s *engine.Worker) bool { return s.Resting && !s.Working || s.Marked != "" })
	c.advance(engine.RetryMark)
	l.marked(l.Allocator, l.table.Writer)
	if err := l.Drain(t.Context(), "p"); err != nil {
		t.Fatalf("Drain: %v", err)
	}
	if err := l.ReleaseIf(t.Context(), full); err != nil {
		t.Fatalf("ReleaseIf: %v", err)
	}
	for there := true; there && t.Context().Err() == nil; _, there = l.Pool("p") {
		runtime.Gosched()
	}
	resp, err := l.etcd.Client().Get(t.Context(), l.keys.Space("p").Waiters())
	if err != nil || resp.Count != 0 {
		t.Errorf("after the pool was retired etcd has %d marks, %v, want 0", resp.Count, err)
	}
}
