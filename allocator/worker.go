package allocator

import (
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
)

// worker is a space with what writes it: the requests that are queued, and the transaction
// that is under way. The lock of the space guards what is not said to be the goroutine's own.
type worker struct {
	*space.Space
	engine *engine

	queue   queue
	working bool   // the goroutine runs
	placing *group // what it is gathering
	alarm   alarm  // for the next cooldown that ends
	turn    *turn  // that another writer asks for
	resting bool   // etcd did not take the last mark of waiters; the next is tried after a pause

	pending *pending      // the goroutine's own: the calls of the last transaction that are not settled
	losses  int           // the goroutine's own: conflicts with other writers, lately
	took    time.Duration // the goroutine's own: by the last transaction
}

func newWorker(eng *engine, id SpaceID) *worker {
	w := &worker{Space: space.NewSpace(eng.table, id), engine: eng}
	w.Unlocking, w.Unlocked = w.beforeUnlock, eng.tell
	return w
}

// beforeUnlock brings mark and alarm in line with the space, before its lock is let go.
func (s *worker) beforeUnlock() {
	s.remark()
	s.rearm()
}

// worker returns that of a space; ok is false if the space is not known, or no longer.
func (eng *engine) worker(id SpaceID) (w *worker, ok bool) {
	eng.mu.RLock()
	defer eng.mu.RUnlock()
	w, ok = eng.spaces[id]
	return w, ok
}

// workers are those of all spaces.
func (eng *engine) workers() []*worker {
	eng.mu.RLock()
	defer eng.mu.RUnlock()
	all := make([]*worker, 0, len(eng.spaces))
	for _, w := range eng.spaces {
		all = append(all, w)
	}
	return all
}

// enter finds or makes a space, and returns it locked. One that is gone is
// replaced by one that knows as much.
func (eng *engine) enter(id SpaceID) *worker {
	var gone *worker
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

// forsake drops the space if nothing was ever registered in it.
func (s *worker) forsake() {
	if s.Head.Revision == 0 && len(s.Pools) == 0 {
		s.Gone = true
		s.engine.drop(s)
	}
}

// drop removes a space from the table, if it is the one that is there.
func (eng *engine) drop(s *worker) {
	eng.mu.Lock()
	defer eng.mu.Unlock()
	if eng.spaces[s.ID] == s {
		delete(eng.spaces, s.ID)
	}
}
