package engine

import (
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Worker is a space and its writer: the queued requests, and the transaction in flight. The lock
// of the space guards all fields but those of the goroutine.
type Worker struct {
	*space.Space
	Engine *Engine
	Keys   store.SpaceKeys // those of the space

	Queue   queue
	Working bool  // the goroutine runs
	alarm   alarm // for the next cooldown that ends

	// The goroutine's own.
	pending *pending // the last group, if its outcome is not certain or not in memory
	refuted bool     // a call of the last group was: the others go without those behind them
}

// DropIfEmpty drops the space if nothing was ever registered in it.
func (s *Worker) DropIfEmpty() {
	if s.Head.Revision == 0 && len(s.Room.Pools) == 0 {
		s.Gone = true
		s.Engine.Spaces.drop(s)
	}
}

// endLook is how long an alarm's timer runs at most. A timer follows the monotonic clock, and a
// cooldown ends by the wall clock, which may be set.
const endLook = time.Minute

// alarm is the one timer of a space, for the cooldown that ends next. The space's lock guards it.
type alarm struct {
	at      time.Time // when it rings; zero: it is not set
	stop    func() bool
	running bool      // a goroutine ends cooldowns
	after   time.Time // it does not ring before
}

// set sets the timer for the next end; zero: there is none.
func (a *alarm) set(next time.Time, hooks *Hooks, ring func()) {
	if !next.IsZero() && next.Before(a.after) {
		next = a.after
	}
	if next.Equal(a.at) {
		return
	}
	if !a.at.IsZero() {
		a.stop()
	}
	if a.at = next; next.IsZero() {
		return
	}
	a.stop = hooks.After(min(max(0, next.Sub(hooks.Now())), endLook), ring)
}

// take takes the alarm for a goroutine that ends cooldowns, and reports whether none has it. The timer
// that is set need not be the one that rang: that may have been replaced as it did.
func (a *alarm) take() (ok bool) {
	if !a.at.IsZero() {
		a.stop()
	}
	ok = !a.running
	a.running, a.at = true, time.Time{}
	return ok
}

// spaces are the workers of all spaces. It is safe for concurrent use. Its lock is taken after that
// of a space, never before. Its holder waits for nothing.
type spaces struct {
	mu      sync.RWMutex
	workers map[ledger.SpaceID]*Worker
	open    func(ledger.SpaceID) *Worker // makes a worker
}

// find returns the worker of a space; ok is false if the space is not known.
func (all *spaces) find(id ledger.SpaceID) (w *Worker, ok bool) {
	all.mu.RLock()
	defer all.mu.RUnlock()
	w, ok = all.workers[id]
	return w, ok
}

// All returns the workers of all spaces.
func (all *spaces) All() []*Worker {
	all.mu.RLock()
	defer all.mu.RUnlock()
	workers := make([]*Worker, 0, len(all.workers))
	for _, w := range all.workers {
		workers = append(workers, w)
	}
	return workers
}

// Enter finds or makes a space, and returns it locked. It replaces a space that is gone by
// a new one, as of the same revision.
func (all *spaces) Enter(id ledger.SpaceID) *Worker {
	var gone *Worker
	for {
		all.mu.Lock()
		w, ok := all.workers[id]
		if !ok || w == gone {
			w = all.open(id)
			all.workers[id] = w
		}
		all.mu.Unlock()
		w.Lock()
		if gone != nil {
			w.Known = max(w.Known, gone.Known)
		}
		if !w.Gone {
			return w
		}
		gone = w
		w.Unlock()
	}
}

// drop removes a space, unless another one has taken its place.
func (all *spaces) drop(w *Worker) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.workers[w.ID] == w {
		delete(all.workers, w.ID)
	}
}

// dropGone removes a space that is retired, once the watch has reached the revision at which it was.
func (all *spaces) dropGone(id ledger.SpaceID, watched int64) {
	w, ok := all.find(id)
	if !ok {
		return
	}
	w.Lock()
	over := w.Gone && w.Known <= watched
	w.Unlock()
	if over {
		all.drop(w)
	}
}

// Count adds up a number of each space. It calls of with the lock of the space held.
func (all *spaces) Count(of func(*Worker) int) (n int) {
	for _, w := range all.All() {
		w.Read(func() { n += of(w) })
	}
	return n
}

// CountCooling counts the cooling blocks of all spaces.
func (all *spaces) CountCooling() int {
	return all.Count(func(w *Worker) int { return len(w.Cooling.Blocks) })
}
