package inbox

import (
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// lately knows the pools that were requeued at once within the last moment. The zero value is ready; safe for
// concurrent use.
type lately struct {
	mu    sync.Mutex
	since map[ledger.PoolID]time.Time
	order []ledger.PoolID // the first of them first
}

// first notes a pool. It reports false, and changes nothing, if that was noted within the last moment.
func (l *lately) first(id ledger.PoolID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.order) > 0 && now.Sub(l.since[l.order[0]]) >= coalesce {
		delete(l.since, l.order[0])
		l.order = l.order[1:]
	}
	if _, noted := l.since[id]; noted {
		return false
	}
	if l.since == nil {
		l.since = map[ledger.PoolID]time.Time{}
	}
	l.since[id], l.order = now, append(l.order, id)
	return true
}
