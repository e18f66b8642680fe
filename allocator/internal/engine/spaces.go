package engine

import (
	"sync"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

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
