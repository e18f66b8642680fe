package allocator

import (
	"errors"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// errReread: memory cannot be brought up to date by the watch alone.
var errReread = errors.New("the ledger has to be read again")

// Unreadable reports whether an error says that a key of the ledger cannot be read.
func Unreadable(err error) bool {
	var version *VersionError
	var damage *DamageError
	return errors.As(err, &version) || errors.As(err, &damage)
}

// inspectPool notes whether the record of a pool that is not known can be read. It
// reports true where it can be again: what has happened in its space was passed over.
func (a *Allocator) inspectPool(e store.Entry) (healed bool) {
	if _, known := a.table.Find(e.Pool); known {
		return false // its space notes that
	}
	was := a.table.Note(e)
	if e.Put && e.Damage != nil {
		a.options.Logger.Error("a pool of the ledger cannot be read, and no root pool is registered", "pool", e.Pool, "error", e.Damage)
		return false
	}
	if healed = was && e.Put; healed {
		s := a.enter(e.Registered.Space)
		s.Stale = true
		s.Unlock()
	}
	return healed
}

// unreadable counts the keys that cannot be read.
func (a *Allocator) unreadable() int {
	count := a.table.Unreadable()
	for _, s := range a.workers() {
		count += s.CountUnreadable()
	}
	return count
}
