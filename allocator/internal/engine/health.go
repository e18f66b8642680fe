package engine

import (
	"errors"
	"sync"
)

// health remembers the last fault of the watch and of the transactions, and one that
// is for good.
type health struct {
	Failed chan struct{} // closed when there is a fatal one

	mu                   sync.Mutex
	watch, commit, fatal error
}

// fail notes a fault that is for good. It reports false if there was one before.
func (h *health) fail(err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fatal != nil {
		return false
	}
	h.fatal = err
	close(h.Failed)
	return true
}

func (h *health) setWatch(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watch = err
}

func (h *health) setCommit(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit = err
}

func (h *health) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.fatal, h.watch, h.commit)
}
