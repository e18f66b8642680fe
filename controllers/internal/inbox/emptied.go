package inbox

import (
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// emptied knows the pools that hold nothing, as far as changes have told of them. The zero value is ready; safe for
// concurrent use.
type emptied struct {
	mu    sync.Mutex
	pools map[ledger.PoolID]emptying
}

// emptying is when a pool was last requeued at once, and whether it has been empty since.
type emptying struct {
	at    time.Time
	still bool
}

// first reports whether a pool that holds nothing is to be requeued at once: if it has held something since it was
// requeued so, and that was not within the last moment.
func (e *emptied) first(id ledger.PoolID, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	last, known := e.pools[id]
	if known && (last.still || now.Sub(last.at) < Coalesce) {
		e.pools[id] = emptying{at: last.at, still: true}
		return false
	}
	if e.pools == nil {
		e.pools = map[ledger.PoolID]emptying{}
	}
	e.pools[id] = emptying{at: now, still: true}
	return true
}

// filled notes that a pool holds something, and reports whether it was known to be empty.
func (e *emptied) filled(id ledger.PoolID) (was bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	last, known := e.pools[id]
	if known {
		e.pools[id] = emptying{at: last.at}
	}
	return last.still
}

// forget drops a pool that has left the ledger.
func (e *emptied) forget(id ledger.PoolID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.pools, id)
}
