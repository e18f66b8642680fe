package directory

import (
	"maps"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// forgetHidden is after how long it is forgotten that a workspace went out of sight.
const forgetHidden = time.Hour

// hidden are the workspaces that were served, are not shown any more, and were not seen to leave. The zero value is
// ready; safe for concurrent use.
type hidden struct {
	mu     sync.Mutex
	since  map[ledger.ClusterName]time.Time
	pruned time.Time // when those of long ago were last forgotten
}

// hide notes that a workspace is not shown any more. It looks through all others once an hour at most: an endpoint that
// closes hides thousands at once.
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

// Hidden reports whether a workspace went out of sight less than so long ago, an hour at most, and nobody has seen it
// leave: it may be bound all the same.
func (h *hidden) Hidden(cluster ledger.ClusterName, within time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	since, hidden := h.since[cluster]
	return hidden && time.Since(since) < within
}
