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

// Table is the memory of a ledger that concerns more than one space: where each pool is, the
// accounts of classes, reservations, leases, and where each claim waits. Set the exported fields
// before its first use. It is safe for concurrent use.
type Table struct {
	Frozen   bool          // pools begin frozen, until they are trusted
	HoldTime time.Duration // for how long room is held
	Now      func() time.Time
	After    func(time.Duration, func()) (stop func() bool)
	Logger   *slog.Logger

	Waiting atomic.Int64 // claims that wait, over all pools
	Quotas  Quotas
	// Reservations are the unconfirmed ones.
	Reservations Reservations
	Leases       Leases
	Journal      Journal

	// mu is taken after a space's lock, never before. Its holder waits for nothing.
	mu      sync.RWMutex
	pools   map[ledger.PoolID]*Pool
	roots   map[ledger.ClusterName]*Roots
	has     map[ledger.ClusterName]int         // how many pools, none that is 0
	waits   map[ledger.ClaimID][]ledger.PoolID // where a claim waits
	damage  Damage                             // of the records of pools that are not known
	retired recent[ledger.PoolID]              // that an Allocator, this one or another, has retired while the watch followed: any other may have been lost
	bound   recent[ledger.ClaimID]             // whose bind was refuted, because they were bound
	kin     kin
}

// NewTable makes an empty table. The caller sets its exported fields.
func NewTable() *Table {
	return &Table{
		pools: map[ledger.PoolID]*Pool{}, has: map[ledger.ClusterName]int{}, roots: map[ledger.ClusterName]*Roots{}, waits: map[ledger.ClaimID][]ledger.PoolID{}, damage: Damage{}, Leases: newLeases(), kin: newKin(),
	}
}

// noteBlock notes a block that has changed, its lease, and its reservations. One that is gone, or cannot be read, has
// none. The lock of its space is held.
func (t *Table) noteBlock(at ledger.Position, r store.Record) {
	t.Journal.Put(at, r)
	t.Reservations.Put(at, r)
	if lease, ok := LeaseOf(r); ok {
		t.Leases.Put(at, lease)
		return
	}
	t.Leases.Remove(at)
}

// remember notes where a claim waits, for Withdraw.
func (t *Table) remember(w *Waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	claim, pool := w.request.Holder.Claim, w.request.Pool
	if !slices.Contains(t.waits[claim], pool) {
		t.waits[claim] = append(t.waits[claim], pool)
	}
}

// Roots are the root pools of one workspace, as of the fence's revision or later: a pool is
// added or removed before the revision changes. Revision 0: there is no fence, and no pool.
type Roots struct {
	Revision int64
	Pools    map[ledger.PoolID]ledger.Pool
}

// Add adds a pool to the table. Its space's lock is held.
func (t *Table) Add(p *Pool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pools[p.ID] == nil {
		t.has[p.Cluster]++
	}
	t.pools[p.ID] = p
	t.retired.forget(p.ID)
	t.putRecord(p.Pool)
	if p.Above() == "" {
		t.rootsOf(p.Cluster).Pools[p.ID] = p.Pool
	}
}

// Remove removes a pool from the table, unless another one has taken its place. Its
// space's lock is held.
func (t *Table) Remove(p *Pool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pools[p.ID] != p {
		return
	}
	delete(t.pools, p.ID)
	t.kin.remove(p.ID)
	t.Reservations.PutRange(p.ID, "", time.Time{})
	if t.has[p.Cluster]--; t.has[p.Cluster] == 0 {
		delete(t.has, p.Cluster)
	}
	if r := t.roots[p.Cluster]; r != nil && p.Above() == "" {
		delete(r.Pools, p.ID)
	}
}

// rootsOf returns the roots of a cluster. The caller holds mu for writing.
func (t *Table) rootsOf(c ledger.ClusterName) *Roots {
	r, ok := t.roots[c]
	if !ok {
		r = &Roots{Pools: map[ledger.PoolID]ledger.Pool{}}
		t.roots[c] = r
	}
	return r
}

// Find looks a pool up in memory.
func (t *Table) Find(id ledger.PoolID) (*Pool, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	p, ok := t.pools[id]
	return p, ok
}

// Visit calls visit with a pool, and with the lock of its space held. ok is false if the pool is not
// in memory.
func (t *Table) Visit(id ledger.PoolID, visit func(*Pool)) (ok bool) {
	for {
		p, ok := t.Find(id)
		if !ok {
			return false
		}
		if t.visit(p, visit) {
			return true
		}
	}
}

// visit reports false, and calls nothing, if the pool was replaced before its space was locked.
func (t *Table) visit(p *Pool, visit func(*Pool)) (ok bool) {
	p.In.Lock()
	defer p.In.Unlock()
	if now, _ := t.Find(p.ID); now != p {
		return false
	}
	visit(p)
	return true
}

// Fenced notes that the fence of a cluster was put at the revision.
func (t *Table) Fenced(c ledger.ClusterName, revision int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rootsOf(c)
	r.Revision = max(r.Revision, revision)
}

// Unfenced notes that the fence of a cluster without root pools was deleted, if it was
// not put after the revision.
func (t *Table) Unfenced(c ledger.ClusterName, revision int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.roots[c]
	if !ok || r.Revision > revision {
		return
	}
	if r.Revision = 0; len(r.Pools) == 0 {
		delete(t.roots, c)
	}
}

// NoteRetired notes that pools were retired, or came back. Call it before Remove, so that a caller
// which does not find the pool finds out why.
func (t *Table) NoteRetired(ids []ledger.PoolID, retired bool) {
	if len(ids) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		if retired {
			t.retired.add(id)
		} else {
			t.retired.forget(id)
		}
	}
}

// Damaged is the error of the first pool whose record cannot be read; nil if there is none.
func (t *Table) Damaged() error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.damage.Err()
}

// Note notes whether the record of a pool that is not known can be read. It reports whether it
// could not be read before.
func (t *Table) Note(e *store.Entry) (was bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.damage.note(e)
}

// SetDamage replaces what is known of keys that cannot be read.
func (t *Table) SetDamage(d Damage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.damage = d
}

// Unreadable counts the pools that are not known because their records cannot be read.
func (t *Table) Unreadable() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.damage)
}

// RootsIn are the root pools of a cluster.
func (t *Table) RootsIn(c ledger.ClusterName) Roots {
	t.mu.RLock()
	defer t.mu.RUnlock()
	r, ok := t.roots[c]
	if !ok {
		return Roots{}
	}
	return Roots{Revision: r.Revision, Pools: maps.Clone(r.Pools)}
}

// Rootless are the clusters that have a fence and no root pool, with the revision of the fence.
func (t *Table) Rootless() map[ledger.ClusterName]int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	found := map[ledger.ClusterName]int64{}
	for cluster, r := range t.roots {
		if r.Revision > 0 && len(r.Pools) == 0 {
			found[cluster] = r.Revision
		}
	}
	return found
}

// PoolsOf counts the pools in a workspace, and others that count for it: see ledger.Pool.CountsFor.
func (t *Table) PoolsOf(c ledger.ClusterName) int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.has[c] + len(t.kin.counted[c])
}

// IDs are the IDs of all pools.
func (t *Table) IDs() []ledger.PoolID {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Keys(t.pools))
}

// HasRetired reports whether the pool was seen to be retired, and has not come back.
func (t *Table) HasRetired(id ledger.PoolID) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.retired.has(id)
}

// NoteBound notes that the bind of a claim was refuted, because the claim is bound.
func (t *Table) NoteBound(id ledger.ClaimID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bound.add(id)
}

// WasBound reports whether NoteBound was called for a claim, not too long ago.
func (t *Table) WasBound(id ledger.ClaimID) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.bound.has(id)
}

// WaitsAnywhere reports whether a claim waits.
func (t *Table) WaitsAnywhere(id ledger.ClaimID) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	_, waits := t.waits[id]
	return waits
}

// WaitOnly notes that a claim waits at no pools but these, and returns the others where it has
// waited.
func (t *Table) WaitOnly(id ledger.ClaimID, at []ledger.PoolID) (left []ledger.PoolID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var stay []ledger.PoolID
	for _, pool := range t.waits[id] {
		if slices.Contains(at, pool) {
			stay = append(stay, pool)
		} else {
			left = append(left, pool)
		}
	}
	t.waits[id] = stay
	if len(stay) == 0 {
		delete(t.waits, id)
	}
	return left
}
