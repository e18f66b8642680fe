package allocator

import (
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
		s.table.Logger.Error("a key of the ledger cannot be read, and its space stops", "space", s.id, "error", e.Damage)
		return
	}
	if _, was := s.damage[key]; !was {
		return
	}
	delete(s.damage, key)
	if len(s.damage) == 0 {
		s.table.Logger.Info("all keys of the space can be read again", "space", s.id)
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
