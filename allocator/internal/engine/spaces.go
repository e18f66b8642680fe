package engine

import (
	"sync"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// spaces are the workers of all spaces. It is safe for concurrent use. Its lock is taken after that
// of a space, never before, and held for memory work only.
type spaces struct {
	mu      sync.RWMutex
	workers map[ledger.SpaceID]*Worker
	open    func(ledger.SpaceID) *Worker // makes a worker
}

// find is the worker of a space; ok is false if the space is not known, or no longer.
func (all *spaces) find(id ledger.SpaceID) (w *Worker, ok bool) {
	all.mu.RLock()
	defer all.mu.RUnlock()
	w, ok = all.workers[id]
	return w, ok
}

// All are the workers of all spaces.
func (all *spaces) All() []*Worker {
	all.mu.RLock()
	defer all.mu.RUnlock()
	workers := make([]*Worker, 0, len(all.workers))
	for _, w := range all.workers {
		workers = append(workers, w)
	}
	return workers
}

// Enter finds or makes a space, and returns it locked. One that is gone is
// replaced by one that knows as much.
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

// drop removes a space, if it is the one that is there.
func (all *spaces) drop(w *Worker) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.workers[w.ID] == w {
		delete(all.workers, w.ID)
	}
}

// Count adds up what each space counts, whose lock is held meanwhile.
func (all *spaces) Count(of func(*Worker) int) (n int) {
	for _, w := range all.All() {
		w.Read(func() { n += of(w) })
	}
	return n
}
