package space

import (
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// alarms are the clocks that a table has started and not stopped.
type alarms []*func()

func (a *alarms) after(_ time.Duration, ring func()) (stop func() bool) {
	*a = append(*a, &ring)
	return func() bool {
		running := slices.Contains(*a, &ring)
		*a = slices.DeleteFunc(*a, func(r *func()) bool { return r == &ring })
		return running
	}
}

// ring ends the time of all clocks that run now.
func (a *alarms) ring() {
	due := *a
	*a = nil
	for _, ring := range due {
		(*ring)()
	}
}

// Holds that are made at once share a clock, which runs as long as one of them is left. When it rings, the holds that
// are left end, and their room is held for the next waiters.
func TestClock_EndsTheHoldsThatAreLeft(t *testing.T) {
	s, p, told := tight(t)
	running := alarms{}
	s.Table.After = running.after
	waits := func(claim ledger.ClaimID, second int64) {
		req := asks(claim)
		req.Since = time.Unix(second, 0)
		s.Room.Wait(p, req)
	}
	s.Lock()
	for i, claim := range []ledger.ClaimID{"a", "b", "c", "d"} {
		waits(claim, int64(i))
	}
	s.Unlock()
	wantWoken(t, told, "a", "b")
	if len(running) != 1 {
		t.Fatalf("%d clocks run for 2 holds made at once; want 1", len(running))
	}
	s.Lock()
	come(s, "10.0.0.0/32", block("a"))
	s.Unlock()
	running.ring()
	wantWoken(t, told, "c")
	if len(running) != 1 {
		t.Errorf("%d clocks run for the one hold that is left; want 1", len(running))
	}
	s.Lock()
	s.Room.Withdraw(p, "c") // ends the clock, and begins another
	s.Room.Withdraw(p, "d")
	s.Unlock()
	running.ring()
	wantWoken(t, told, "b") // the only one that still waits
	s.Lock()
	s.Room.Withdraw(p, "b")
	s.Unlock()
	if len(running) != 0 {
		t.Errorf("%d clocks run while nothing is held; want none", len(running))
	}
}

// If a hold begins and ends while the space is locked, its clock stops. The next hold starts another clock.
func TestHold_StartsANewClockAfterTheLastHasStopped(t *testing.T) {
	s, p, told := tight(t)
	running := alarms{}
	s.Table.After = running.after
	s.Lock()
	s.Room.Wait(p, asks("first"))
	s.Room.Withdraw(p, "first")
	s.Room.Wait(p, asks("second"))
	s.Unlock()
	if len(running) != 1 {
		t.Fatalf("%d clocks run for the hold of the second; want 1", len(running))
	}
	running.ring()
	wantWoken(t, told, "second")
}

// wantWoken checks which claims the last notifications wake.
func wantWoken(t *testing.T, told *News, want ...ledger.ClaimID) {
	t.Helper()
	var got []ledger.ClaimID
	for _, h := range told.Woken {
		got = append(got, h.Claim)
	}
	if !slices.Equal(got, want) {
		t.Errorf("woken are %v, want %v", got, want)
	}
}
