package space

import (
	"maps"
	"slices"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Part says how one address space of a pool is used, or all of them together.
type Part struct {
	Spaces int       // how many address spaces it describes
	Held   bool      // somebody has a block in it, or may have one
	Cools  bool      // blocks cool in it
	Last   time.Time // when the last cooling block is free
	damage error
}

// Err returns why a key of an address space cannot be read; nil: all can be read.
func (p Part) Err() error { return p.damage }

// PartsOf returns how the address spaces of a pool are used together.
func (t *Table) PartsOf(id ledger.PoolID) (all Part) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, p := range t.parts[id] {
		all.Spaces++
		all.Held, all.Cools = all.Held || p.Held, all.Cools || p.Cools
		if p.Last.After(all.Last) {
			all.Last = p.Last
		}
		if all.damage == nil {
			all.damage = p.damage
		}
	}
	return all
}

// Spaced reports whether a pool has address spaces. It costs the same however many there are, because each bind asks.
func (t *Table) Spaced(id ledger.PoolID) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.parts[id]) > 0
}

// Parts lists the address spaces of a pool, in no order.
func (t *Table) Parts(id ledger.PoolID) []ledger.PoolID {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Keys(t.parts[id]))
}

// notePart notes how an address space of a pool is used. The caller holds the lock of the address space.
func (t *Table) notePart(of, id ledger.PoolID, p Part) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.parts[of] == nil {
		t.parts[of] = map[ledger.PoolID]Part{}
	}
	t.parts[of][id] = p
}

// dropPart forgets an address space. For any other pool it does nothing.
func (t *Table) dropPart(id ledger.PoolID) {
	of, _ := ledger.AddressSpaceOf(id)
	t.mu.Lock()
	defer t.mu.Unlock()
	if delete(t.parts[of], id); len(t.parts[of]) == 0 {
		delete(t.parts, of)
	}
}
