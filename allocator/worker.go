package allocator

import (
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
)

// worker is a space with what writes it: the requests that are queued, and the transaction
// that is under way. The lock of the space guards what is not said to be the goroutine's own.
type worker struct {
	*space.Space
	alloc *Allocator

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

func newWorker(a *Allocator, id SpaceID) *worker {
	w := &worker{Space: space.NewSpace(a.table, id), alloc: a}
	w.Unlocking, w.Unlocked = w.beforeUnlock, a.tell
	return w
}

// beforeUnlock brings mark and alarm in line with the space, before its lock is let go.
func (s *worker) beforeUnlock() {
	s.remark()
	s.rearm()
}

// tell calls those who have to know what has changed in a space.
func (a *Allocator) tell(n space.News) {
	if len(n.Touched) > 0 {
		a.options.Changed(n.Touched...)
	}
	for _, h := range n.Woken {
		a.options.Wake(h)
	}
	for _, p := range n.Left {
		a.options.Retired(p)
	}
	a.table.Relieve(n.Relieved)
	for _, p := range n.Drained {
		a.spawn(func() { a.retireDrained(p) })
	}
}

// worker returns that of a space; ok is false if the space is not known, or no longer.
func (a *Allocator) worker(id SpaceID) (w *worker, ok bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	w, ok = a.spaces[id]
	return w, ok
}

// workers are those of all spaces.
func (a *Allocator) workers() []*worker {
	a.mu.RLock()
	defer a.mu.RUnlock()
	all := make([]*worker, 0, len(a.spaces))
	for _, w := range a.spaces {
		all = append(all, w)
	}
	return all
}

// enter finds or makes a space, and returns it locked. One that is gone is
// replaced by one that knows as much.
func (a *Allocator) enter(id SpaceID) *worker {
	var gone *worker
	for {
		a.mu.Lock()
		s, ok := a.spaces[id]
		if !ok || s == gone {
			s = newWorker(a, id)
			a.spaces[id] = s
		}
		a.mu.Unlock()
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
		s.alloc.drop(s)
	}
}

// drop removes a space from the table, if it is the one that is there.
func (a *Allocator) drop(s *worker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.spaces[s.ID] == s {
		delete(a.spaces, s.ID)
	}
}
