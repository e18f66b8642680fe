package engine

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// A timer may ring at the moment at which it is replaced. Afterwards one timer is set, and not two.
func TestAlarm_SetsOneTimerEvenIfTheReplacedTimerRings(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	set := 0
	hooks := RealHooks()
	hooks.Now = func() time.Time { return start }
	hooks.After = func(time.Duration, func()) func() bool {
		set++
		return func() bool { set--; return true }
	}
	var a alarm
	a.set(start.Add(time.Minute), &hooks, func() {})
	set-- // it rings
	a.stop = func() bool { return false }
	a.set(start.Add(time.Second), &hooks, func() {})
	if !a.take() {
		t.Fatal("take reports that another goroutine ends cooldowns, and none does")
	}
	a.running = false
	a.set(start.Add(time.Hour), &hooks, func() {})
	if set != 1 {
		t.Errorf("%d timers are set, want one", set)
	}
}

// The timer of a space is set once for each end, is not set before a pause is over, and is stopped when nothing cools.
func TestAlarm_SetsItsTimerOnceForEachEnd(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var waits []time.Duration
	stopped := 0
	hooks := RealHooks()
	hooks.Now = func() time.Time { return start }
	hooks.After = func(d time.Duration, _ func()) func() bool {
		waits = append(waits, d)
		return func() bool { stopped++; return true }
	}
	a := alarm{after: start.Add(2 * time.Second)}
	a.set(start.Add(time.Second), &hooks, func() {})
	a.set(start.Add(time.Second), &hooks, func() {})
	a.set(start.Add(time.Hour), &hooks, func() {})
	a.set(time.Time{}, &hooks, func() {})
	if len(waits) != 2 || waits[0] != 2*time.Second || waits[1] != endLook || stopped != 2 {
		t.Errorf("the timer was set for %v and stopped %d times; want 2s and %v, and twice", waits, stopped, endLook)
	}
}

// Enter replaces a space that is gone. A late drop of the former space does not remove the new one.
func TestSpaces_ReplaceASpaceThatIsGone(t *testing.T) {
	table := space.NewTable()
	table.Logger = slog.Default()
	all := spaces{is: map[ledger.SpaceID]*Space{}}
	all.open = func(id ledger.SpaceID) *Space {
		w := &Space{Space: space.NewSpace(table, id)}
		w.Unlocking, w.Unlocked = func() {}, func(space.News) {}
		return w
	}
	first := all.Enter("s")
	first.Gone = true
	first.Unlock()
	second := all.Enter("s")
	second.Unlock()
	if second == first {
		t.Fatalf("Enter = %p, which is gone; want another space", second)
	}
	all.drop(first)
	if w, ok := all.find("s"); !ok || w != second {
		t.Errorf("find = %p %v after the former space was dropped, want %p", w, ok, second)
	}
	if n := all.Count(func(w *Space) int { return 7 }); n != 7 {
		t.Errorf("Count = %d, want 7", n)
	}
}

// The first fatal fault stays. The fault of the last transaction is returned beside it.
func TestHealth_KeepsTheFirstFatalFault(t *testing.T) {
	h := health{Failed: make(chan struct{}), logger: slog.Default()}
	first := h.end(ledger.ErrDeposed)
	h.setCommit(ledger.ErrBusy)
	if second := h.end(ledger.ErrReplaced); !errors.Is(second, first) || !errors.Is(h.Err(), ledger.ErrDeposed) || !errors.Is(h.all(), ledger.ErrBusy) {
		t.Errorf("Err = %v, and all %v; want the first to stay, and all of them", h.Err(), h.all())
	}
	<-h.Failed
}
