package space

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Table is the memory of a ledger that concerns more than one space: where each pool is, the accounts of classes,
// leases, and where each claim waits. Set the exported fields before its first use. It is safe for concurrent use.
type Table struct {
	Frozen   bool          // pools begin frozen, until they are trusted
	Loaded   bool          // memory has the ledger
	HoldTime time.Duration // for how long room is held
	Now      func() time.Time
	After    func(time.Duration, func()) (stop func() bool)
	Logger   *slog.Logger

	Waiting atomic.Int64 // claims that wait, over all pools
	Waits   Waits
	Quotas  Quotas
	Leases  Leases
	Journal Journal
	Retired recent[ledger.PoolID]  // pools that this Allocator has retired: any other may have been lost
	Bound   recent[ledger.ClaimID] // claims whose bind was refused because they have a block

	// mu is taken after a space's lock, never before. The holder of mu must not wait for anything.
	mu     sync.RWMutex
	pools  map[ledger.PoolID]*Pool
	roots  map[ledger.ClusterName]map[ledger.PoolID]ledger.Pool
	has    map[ledger.ClusterName]int // how many pools each workspace has; no entry is 0
	damage Damage                     // records of pools that cannot be read, and so are not in memory
	kin    kin
	parts  map[ledger.PoolID]map[ledger.PoolID]Part // the address spaces of each pool
}

// NewTable makes an empty table. The caller sets its exported fields.
func NewTable() *Table {
	return &Table{
		Leases: newLeases(),
		pools:  map[ledger.PoolID]*Pool{},
		roots:  map[ledger.ClusterName]map[ledger.PoolID]ledger.Pool{},
		has:    map[ledger.ClusterName]int{},
		damage: Damage{},
		kin:    newKin(),
		parts:  map[ledger.PoolID]map[ledger.PoolID]Part{},
	}
}

// noteBlock notes that a block has changed, and its lease. A block that is gone, or cannot be read, has no lease. The
// caller holds the lock of the block's space.
func (t *Table) noteBlock(at ledger.Position, r store.Record) {
	t.Journal.Put(at, r)
	t.note(at, r)
}

func (t *Table) note(at ledger.Position, r store.Record) {
	if lease, ok := LeaseOf(r); ok {
		t.Leases.Put(at, lease)
		return
	}
	t.Leases.Remove(at)
}

// Add adds a pool to the table. The caller holds the lock of the pool's space.
func (t *Table) Add(p *Pool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pools[p.ID] == nil {
		t.has[p.Cluster]++
	}
	t.pools[p.ID] = p
	t.Retired.Forget(p.ID)
	t.putRecord(p.Pool)
	if p.Above() == "" {
		t.rootsOf(p.Cluster)[p.ID] = p.Pool
	}
}

// Remove removes a pool from the table, unless another pool has taken its place. The caller holds the lock of the
// pool's space.
func (t *Table) Remove(p *Pool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pools[p.ID] != p {
		return
	}
	delete(t.pools, p.ID)
	t.kin.remove(p.ID)
	if t.has[p.Cluster]--; t.has[p.Cluster] == 0 {
		delete(t.has, p.Cluster)
	}
	if delete(t.roots[p.Cluster], p.ID); len(t.roots[p.Cluster]) == 0 {
		delete(t.roots, p.Cluster)
	}
}

// rootsOf returns the roots of a cluster. The caller holds mu for writing.
func (t *Table) rootsOf(c ledger.ClusterName) map[ledger.PoolID]ledger.Pool {
	if t.roots[c] == nil {
		t.roots[c] = map[ledger.PoolID]ledger.Pool{}
	}
	return t.roots[c]
}

// Lists reports whether this is the pool that the ledger has under its ID.
func (t *Table) Lists(p *Pool) bool {
	now, _ := t.Find(p.ID)
	return now == p
}

// Find looks a pool up in memory.
func (t *Table) Find(id ledger.PoolID) (*Pool, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	p, ok := t.pools[id]
	return p, ok
}

// Damaged returns the records of pools that are not in memory because they cannot be read.
func (t *Table) Damaged() Damage {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return maps.Clone(t.damage)
}

// DamagedOf returns why an address space of a pool is not in memory: its key cannot be read. Nil: all are.
func (t *Table) DamagedOf(id ledger.PoolID, keys store.Keys) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	below := Damage{}
	for key, err := range t.damage {
		k, _ := keys.Parse(key)
		if of, is := ledger.AddressSpaceOf(k.Pool); is && of == id {
			below[key] = err
		}
	}
	return below.Err()
}

// Note notes that the record of a pool cannot be read.
func (t *Table) Note(e *store.Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.damage.note(e)
}

// RootsIn returns the root pools of a cluster.
func (t *Table) RootsIn(c ledger.ClusterName) map[ledger.PoolID]ledger.Pool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return maps.Clone(t.roots[c])
}

// PoolsOf counts the pools in a workspace, and others that count for it: see ledger.Pool.CountsFor.
func (t *Table) PoolsOf(c ledger.ClusterName) int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.has[c] + len(t.kin.counted[c])
}

// IDs returns the IDs of all pools.
func (t *Table) IDs() []ledger.PoolID {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Keys(t.pools))
}

// putRecord notes the record of a pool. The caller holds mu.
func (t *Table) putRecord(p ledger.Pool) {
	t.kin.put(p)
}

// Amend notes that the record of a pool has changed. The caller holds the lock of the pool's space.
func (t *Table) Amend(p *Pool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pools[p.ID] == p {
		t.putRecord(p.Pool)
	}
}

// Below lists the pools that were carved from a pool, and its address spaces, in no order.
func (t *Table) Below(id ledger.PoolID) []ledger.PoolID {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Keys(t.kin.below[id]))
}

// Named lists the derived pools of a workspace that have this name, in no order.
func (t *Table) Named(c ledger.ClusterName, name string) []ledger.PoolID {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Keys(t.kin.named[nameOf(c, name)]))
}

// RolesDiffer reports whether the workspace of an address space has another address space of the same pool, for other
// roles.
func (t *Table) RolesDiffer(made ledger.Derived) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.kin.differs(made)
}

// HeldBy lists the pools that a claim holds, in the order of their IDs.
func (t *Table) HeldBy(id ledger.ClaimID) []ledger.PoolID {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(maps.Keys(t.kin.held[id]))
}
