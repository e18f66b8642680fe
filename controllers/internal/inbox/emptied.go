package inbox

import (
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// emptied knows which pools hold nothing and which hold something, as far as changes have told of them. The zero value is ready; safe for
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
		e.note(id, emptying{at: last.at, still: true})
		return false
	}
	e.note(id, emptying{at: now, still: true})
	return true
}

// filled notes that a pool holds something, and reports whether it may have been empty: nothing is known of a pool whose first change
// this is.
func (e *emptied) filled(id ledger.PoolID) (was bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	last, known := e.pools[id]
	e.note(id, emptying{at: last.at})
	return last.still || !known
}

// note stores what is known of a pool. The caller holds mu.
func (e *emptied) note(id ledger.PoolID, now emptying) {
	if e.pools == nil {
		e.pools = map[ledger.PoolID]emptying{}
	}
	e.pools[id] = now
}

// forget drops a pool that has left the ledger.
func (e *emptied) forget(id ledger.PoolID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.pools, id)
}
