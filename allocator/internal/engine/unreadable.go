package engine

import (
	"errors"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// errReread: memory cannot be brought up to date by the watch alone.
var errReread = errors.New("the ledger has to be read again")

// inspectPool notes whether the record of a pool that is not known can be read. It
// reports true where it can be again: what has happened in its space was passed over.
func (f follower) inspectPool(e store.Entry) (healed bool) {
	if _, known := f.Table.Find(e.Pool); known {
		return false // its space notes that
	}
	was := f.Table.Note(e)
	if e.Put && e.Damage != nil {
		f.logger.Error("a pool of the ledger cannot be read, and no root pool is registered", "pool", e.Pool, "error", e.Damage)
		return false
	}
	if healed = was && e.Put; healed {
		s := f.Enter(e.Registered.Space)
		s.Stale = true
		s.Unlock()
	}
	return healed
}

// Unreadable counts the keys that cannot be read.
func (eng *Engine) Unreadable() int {
	count := eng.Table.Unreadable()
	for _, s := range eng.Workers() {
		s.Read(func() { count += len(s.Damage) })
	}
	return count
}
