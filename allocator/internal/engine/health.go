package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// health keeps the last fault of the watch and of the transactions, and a fatal one. It is safe
// for concurrent use.
type health struct {
	Failed chan struct{} // closed when there is a fatal one
	logger *slog.Logger

	mu                   sync.Mutex
	watch, commit, fatal error
}

// Err is the fatal fault; nil if there is none.
func (h *health) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fatal
}

func (h *health) all() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.fatal, h.watch, h.commit)
}

// commits is the last fault of the transactions; nil if there is none.
func (h *health) commits() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.commit
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

// behind notes that the watch did not reach a revision in time, and returns that as an error.
func (h *health) behind() error {
	err := fmt.Errorf("%w: the watch is behind", ledger.ErrUnavailable)
	h.setWatch(err)
	return err
}

// compare compares the revision of an answer with one that was seen before the request. etcd
// answers as of the present, so an answer from before that comes from a restored ledger.
func (h *health) compare(seen, answered int64) {
	if answered < seen {
		h.replaced(fmt.Sprintf("etcd is at revision %d, and was at %d", answered, seen))
	}
}

// compareHeads checks the head of a space that the watch has brought. The watch brings every one.
// If one is missing, the watch goes on in a restored ledger.
func (h *health) compareHeads(id ledger.SpaceID, seen, next store.Head) {
	if seen.Revision > 0 && next.Created == seen.Created && next.Version != seen.Version+1 {
		h.replaced(fmt.Sprintf("the head of space %s was put %d times, and %d of them were seen", id, next.Version, seen.Version+1))
	}
}

// replaced notes that the ledger is not the one that is in memory. The engine cannot go on.
func (h *health) replaced(sign string) {
	h.end(fmt.Errorf("%w (%s)", ledger.ErrReplaced, sign))
}

// deposed notes that this process does not have the office any more. The engine cannot go on.
func (h *health) deposed() { h.end(ledger.ErrDeposed) }

// end notes a fatal fault, unless there is one.
func (h *health) end(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fatal != nil {
		return
	}
	h.fatal = why
	close(h.Failed)
	h.logger.Error("this process cannot use the ledger any more", "error", why)
}
