package space

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

// Damage is the keys that cannot be read, and why. The zero value is empty.
type Damage map[string]error

// Err is about the first key; nil if there is none.
func (d Damage) Err() error {
	if len(d) == 0 {
		return nil
	}
	return d[slices.Min(slices.Collect(maps.Keys(d)))]
}

// Inspect notes whether the key of an event can be read. The space's lock is held.
func (s *Space) Inspect(e store.Entry) {
	key := e.Text
	if e.Put && e.Damage != nil {
		if s.Damage == nil {
			s.Damage = Damage{}
		}
		s.Damage[key] = e.Damage
		s.Table.Logger.Error("a key of the ledger cannot be read, and its space stops", "space", s.ID, "error", e.Damage)
		return
	}
	if _, was := s.Damage[key]; !was {
		return
	}
	delete(s.Damage, key)
	if len(s.Damage) == 0 {
		s.Table.Logger.Info("all keys of the space can be read again", "space", s.ID)
		for _, p := range s.Pools {
			s.offer(p, p.CIDR)
		}
	}
}

// Note notes whose a block is, and whether it cools, if that can be read.
func (s *Space) Note(e store.Entry) {
	if e.Damage != nil {
		return
	}
	s.SetOwners(e.Prefix, OwnersOf(e.Block))
	if c := CooledOf(e.Block); c != nil {
		s.Cool(e.Prefix, *c)
		return
	}
	s.uncool(e.Prefix)
}
