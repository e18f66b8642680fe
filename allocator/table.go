package allocator

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// table is what is known of a ledger beside its spaces: where each pool is, and what concerns
// more than one space. The exported fields are set before it is used. It is safe for concurrent
// use.
type table struct {
	Writer   string        // names this process to others that write the same spaces
	Frozen   bool          // pools begin frozen, until they are trusted
	HoldTime time.Duration // for how long room is held
	Now      func() time.Time
	After    func(time.Duration, func()) (stop func() bool)
	Logger   *slog.Logger

	waiting atomic.Int64 // claims that wait, over all pools
	quotas  quotas
	// reservations are those that nobody has confirmed.
	reservations reservations
	leases       leases

	// mu is taken after a space's lock, never before, and held for memory work only.
	mu      sync.RWMutex
	pools   map[PoolID]*pool
	roots   map[ClusterName]*roots
	waits   map[ClaimID][]PoolID // where a claim waits
	damage  damage               // of the records of pools that are not known
	retired retirees             // pools that were seen to leave the ledger in good order
}

func newTable() *table {
	return &table{
		pools: map[PoolID]*pool{}, roots: map[ClusterName]*roots{}, waits: map[ClaimID][]PoolID{}, damage: damage{}, leases: newLeases(),
	}
}

// remember notes where a claim waits, for Withdraw.
func (t *table) remember(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	claim, pool := w.request.Holder.Claim, w.request.Pool
	if !slices.Contains(t.waits[claim], pool) {
		t.waits[claim] = append(t.waits[claim], pool)
	}
}

// withdrawn reports whether the claim of a waiter has left all lists meanwhile.
func (t *table) withdrawn(w *waiter) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return !slices.Contains(t.waits[w.request.Holder.Claim], w.request.Pool)
}

// roots are the root pools of one workspace, as of the fence's revision or later:
// a pool comes or goes first, then the revision moves. Revision 0: there is no fence, as
// there is no pool.
type roots struct {
	revision int64
	pools    map[PoolID]Pool
}

// enlist adds a pool to the tables. Its space's lock is held.
func (t *table) enlist(p *pool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pools[p.ID] = p
	t.retired.forget(p.ID)
	if p.Parent == "" {
		t.rootsOf(p.Cluster).pools[p.ID] = p.Pool
	}
}

// strike removes a pool from the tables, if it is the one that is there. Its
// space's lock is held.
func (t *table) strike(p *pool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pools[p.ID] != p {
		return
	}
	delete(t.pools, p.ID)
	if r := t.roots[p.Cluster]; r != nil && p.Parent == "" {
		delete(r.pools, p.ID)
	}
}

// rootsOf returns the roots of a cluster. The caller holds mu for writing.
func (t *table) rootsOf(c ClusterName) *roots {
	r, ok := t.roots[c]
	if !ok {
		r = &roots{pools: map[PoolID]Pool{}}
		t.roots[c] = r
	}
	return r
}

// find looks a pool up in memory.
func (t *table) find(id PoolID) (*pool, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	p, ok := t.pools[id]
	return p, ok
}

// fenced notes that the fence of a cluster was put at the revision.
func (t *table) fenced(c ClusterName, revision int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rootsOf(c)
	r.revision = max(r.revision, revision)
}

// unfenced notes that the fence of a cluster without root pools was deleted, if it was
// not put after the revision.
func (t *table) unfenced(c ClusterName, revision int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.roots[c]
	if !ok || r.revision > revision {
		return
	}
	if r.revision = 0; len(r.pools) == 0 {
		delete(t.roots, c)
	}
}

// noteRetired notes that pools were retired, or came back. It is done before they are struck
// from the tables: who finds them gone then knows why.
func (t *table) noteRetired(ids []PoolID, retired bool) {
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

// damaged is about the first pool that is not known, as its record cannot be read.
func (t *table) damaged() error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.damage.err()
}

// note notes whether the key of a pool that is not known can be read. It reports whether it
// could not before.
func (t *table) note(e store.Entry) (was bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, was = t.damage[e.Text]
	delete(t.damage, e.Text)
	if e.Put && e.Damage != nil {
		t.damage[e.Text] = e.Damage
	}
	return was
}

// setDamage replaces what is known of keys that cannot be read.
func (t *table) setDamage(d damage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.damage = d
}

// unreadable counts the pools that are not known, as their keys cannot be read.
func (t *table) unreadable() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.damage)
}

// rootsIn are the root pools of a cluster.
func (t *table) rootsIn(c ClusterName) roots {
	t.mu.RLock()
	defer t.mu.RUnlock()
	r, ok := t.roots[c]
	if !ok {
		return roots{}
	}
	return roots{revision: r.revision, pools: maps.Clone(r.pools)}
}

// rootless are the fences of clusters that have no root pool, and their revisions.
func (t *table) rootless() map[ClusterName]int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	found := map[ClusterName]int64{}
	for cluster, r := range t.roots {
		if r.revision > 0 && len(r.pools) == 0 {
			found[cluster] = r.revision
		}
	}
	return found
}

// ids are those of all pools.
func (t *table) ids() []PoolID {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Keys(t.pools))
}

// hasRetired reports whether a pool was seen to leave the ledger in good order.
func (t *table) hasRetired(id PoolID) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.retired.has(id)
}

// waitsAnywhere reports whether a claim waits.
func (t *table) waitsAnywhere(id ClaimID) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	_, waits := t.waits[id]
	return waits
}

// waitOnly notes that a claim waits at these pools at most, and returns those where it did
// and is to wait no more.
func (t *table) waitOnly(id ClaimID, at []PoolID) (left []PoolID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var stay []PoolID
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
