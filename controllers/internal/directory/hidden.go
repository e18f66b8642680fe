package directory

import (
	"maps"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// forgetHidden is how long it is remembered, at least, that a workspace went out of sight.
const forgetHidden = time.Hour

// hidden are the workspaces that were served, are not shown any more, and were not seen to leave. The zero value is
// ready; safe for concurrent use.
type hidden struct {
	mu     sync.Mutex
	since  map[ledger.ClusterName]time.Time
	pruned time.Time // when old entries were last deleted
}

// hide notes that a workspace is not shown any more. At most once an hour it also deletes old entries: an endpoint that
// closes hides thousands of workspaces at once.
func (h *hidden) hide(cluster ledger.ClusterName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if now.Sub(h.pruned) > forgetHidden {
		maps.DeleteFunc(h.since, func(_ ledger.ClusterName, since time.Time) bool { return now.Sub(since) > forgetHidden })
		h.pruned = now
	}
	if h.since == nil {
		h.since = map[ledger.ClusterName]time.Time{}
	}
	h.since[cluster] = now
}

// reveal notes that a workspace is shown again.
func (h *hidden) reveal(cluster ledger.ClusterName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.since, cluster)
}

// Hidden reports whether a workspace went out of sight within this time, and was not seen to be unbound. Such a
// workspace may still be bound. The time must not be longer than an hour.
func (h *hidden) Hidden(cluster ledger.ClusterName, within time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	since, hidden := h.since[cluster]
	return hidden && time.Since(since) < within
}
