package engine

import (
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Worker is a space with what writes it: the requests that are queued, and the transaction
// that is under way. The lock of the space guards what is not said to be the goroutine's own.
type Worker struct {
	*space.Space
	Engine *Engine

	Queue   queue
	Working bool   // the goroutine runs
	Placing *group // what it is gathering
	alarm   alarm  // for the next cooldown that ends
	turn    *turn  // that another writer asks for
	Resting bool   // etcd did not take the last mark of waiters; the next is tried after a pause

	pending *pending      // the goroutine's own: the calls of the last transaction that are not settled
	losses  int           // the goroutine's own: conflicts with other writers, lately
	took    time.Duration // the goroutine's own: by the last transaction
}

func newWorker(eng *Engine, id ledger.SpaceID) *Worker {
	w := &Worker{Space: space.NewSpace(eng.Table, id), Engine: eng}
	w.Unlocking, w.Unlocked = w.beforeUnlock, eng.tell
	return w
}

// beforeUnlock brings mark and alarm in line with the space, before its lock is let go.
func (s *Worker) beforeUnlock() {
	s.updateMark()
	s.updateAlarm()
}

// worker returns that of a space; ok is false if the space is not known, or no longer.
func (eng *Engine) worker(id ledger.SpaceID) (w *Worker, ok bool) {
	eng.mu.RLock()
	defer eng.mu.RUnlock()
	w, ok = eng.spaces[id]
	return w, ok
}

// Workers are those of all spaces.
func (eng *Engine) Workers() []*Worker {
	eng.mu.RLock()
	defer eng.mu.RUnlock()
	all := make([]*Worker, 0, len(eng.spaces))
	for _, w := range eng.spaces {
		all = append(all, w)
	}
	return all
}

// Enter finds or makes a space, and returns it locked. One that is gone is
// replaced by one that knows as much.
func (eng *Engine) Enter(id ledger.SpaceID) *Worker {
	var gone *Worker
	for {
		eng.mu.Lock()
		s, ok := eng.spaces[id]
		if !ok || s == gone {
			s = newWorker(eng, id)
			eng.spaces[id] = s
		}
		eng.mu.Unlock()
		s.Lock()
		if gone != nil {
			s.Known = max(s.Known, gone.Known)
		}
		if !s.Gone {
			return s
		}
		gone = s
		s.Unlock()
	}
}

// DropIfEmpty drops the space if nothing was ever registered in it.
func (s *Worker) DropIfEmpty() {
	if s.Head.Revision == 0 && len(s.Room.Pools) == 0 {
		s.Gone = true
		s.Engine.drop(s)
	}
}

// drop removes a space from the table, if it is the one that is there.
func (eng *Engine) drop(s *Worker) {
	eng.mu.Lock()
	defer eng.mu.Unlock()
	if eng.spaces[s.ID] == s {
		delete(eng.spaces, s.ID)
	}
}
