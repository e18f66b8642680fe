package allocator

import (
	"errors"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// errReread: memory cannot be brought up to date by the watch alone.
var errReread = errors.New("the ledger has to be read again")

// inspectPool notes whether the record of a pool that is not known can be read. It
// reports true where it can be again: what has happened in its space was passed over.
func (eng *engine) inspectPool(e store.Entry) (healed bool) {
	if _, known := eng.table.Find(e.Pool); known {
		return false // its space notes that
	}
	was := eng.table.Note(e)
	if e.Put && e.Damage != nil {
		eng.logger.Error("a pool of the ledger cannot be read, and no root pool is registered", "pool", e.Pool, "error", e.Damage)
		return false
	}
	if healed = was && e.Put; healed {
		s := eng.enter(e.Registered.Space)
		s.Stale = true
		s.Unlock()
	}
	return healed
}

// unreadable counts the keys that cannot be read.
func (eng *engine) unreadable() int {
	count := eng.table.Unreadable()
	for _, s := range eng.workers() {
		count += s.CountUnreadable()
	}
	return count
}
