package allocator

import (
	"errors"
	"maps"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// A value that cannot be read stops the space that it belongs to, and nothing else: no
// call of that space is answered but with the name of the key, until the key is readable
// again or gone. A rolling upgrade that writes newer values is then no outage of the
// replicas that are older. Of a pool that is not known, only the key of its record is:
// until that can be read no root pool is registered anywhere, as it might overlap, but for
// those that a lost ledger had before.

// errReread: memory cannot be brought up to date by the watch alone.
var errReread = errors.New("the ledger has to be read again")

// Unreadable reports whether an error says that a key of the ledger cannot be read.
func Unreadable(err error) bool {
	var version *VersionError
	var damage *DamageError
	return errors.As(err, &version) || errors.As(err, &damage)
}

// damage is the keys that cannot be read, and why. The zero value is empty.
type damage map[string]error

// err is about the first key; nil if there is none.
func (d damage) err() error {
	if len(d) == 0 {
		return nil
	}
	return d[slices.Min(slices.Collect(maps.Keys(d)))]
}

// inspect notes whether the key of an event can be read. The space's lock is held.
func (s *space) inspect(e store.Entry) {
	key := e.Text
	if e.Put && e.Damage != nil {
		if s.damage == nil {
			s.damage = damage{}
		}
		s.damage[key] = e.Damage
		s.alloc.options.Logger.Error("a key of the ledger cannot be read, and its space stops", "space", s.id, "error", e.Damage)
		return
	}
	if _, was := s.damage[key]; !was {
		return
	}
	delete(s.damage, key)
	if len(s.damage) == 0 {
		s.alloc.options.Logger.Info("all keys of the space can be read again", "space", s.id)
		for _, p := range s.pools {
			s.offer(p, p.CIDR)
		}
	}
}

// note notes whose a block is, and whether it cools, if that can be read.
func (s *space) note(e store.Entry) {
	if e.Damage != nil {
		return
	}
	s.own(e.Prefix, ownersOf(e.Block))
	if c := cooledOf(e.Block); c != nil {
		s.cool(e.Prefix, *c)
		return
	}
	s.uncool(e.Prefix)
}

// inspectPool notes whether the record of a pool that is not known can be read. It
// reports true where it can be again: what has happened in its space was passed over.
func (a *Allocator) inspectPool(e store.Entry) (healed bool) {
	if _, known := a.find(e.Pool); known {
		return false // its space notes that
	}
	key := e.Text
	a.mu.Lock()
	_, was := a.damage[key]
	delete(a.damage, key)
	if e.Put && e.Damage != nil {
		a.damage[key] = e.Damage
	}
	a.mu.Unlock()
	if e.Put && e.Damage != nil {
		a.options.Logger.Error("a pool of the ledger cannot be read, and no root pool is registered", "pool", e.Pool, "error", e.Damage)
		return false
	}
	if healed = was && e.Put; healed {
		s := a.enter(e.Registered.Space)
		s.stale = true
		s.unlock()
	}
	return healed
}

// damageOfPools is about the first pool that is not known, as its record cannot be read.
func (a *Allocator) damageOfPools() error {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.damage.err()
}

// unreadable counts the keys that cannot be read.
func (a *Allocator) unreadable() int {
	a.mu.RLock()
	count, spaces := len(a.damage), slices.Collect(maps.Values(a.spaces))
	a.mu.RUnlock()
	for _, s := range spaces {
		s.lock()
		count += len(s.damage)
		s.mu.Unlock()
	}
	return count
}
