package engine

import (
	"errors"
	"log/slog"
	"sync"
)

// health keeps the last fault of the transactions, and the fatal fault. It is safe for concurrent use.
type health struct {
	Failed chan struct{} // closed when there is a fatal fault
	logger *slog.Logger

	mu            sync.Mutex
	commit, fatal error
}

// Err returns the fatal fault; nil if there is none.
func (h *health) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fatal
}

func (h *health) all() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.fatal, h.commit)
}

func (h *health) setCommit(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit = err
}

// end notes a fatal fault, after which the engine cannot go on. It returns the first fatal fault.
func (h *health) end(why error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fatal == nil {
		h.fatal = why
		close(h.Failed)
		h.logger.Error("this process cannot use the ledger any more", "error", why)
	}
	return h.fatal
}
