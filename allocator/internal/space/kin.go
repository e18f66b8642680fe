package space

import (
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// kin is which pools belong together: those below a pool, those that a claim holds, and those that count for a workspace without being
// in it. The lock of the table guards it.
type kin struct {
	of      map[ledger.PoolID]bond // those that have one
	below   map[ledger.PoolID]map[ledger.PoolID]struct{}
	held    map[ledger.ClaimID]map[ledger.PoolID]struct{}
	counted map[ledger.ClusterName]map[ledger.PoolID]struct{} // those that count for a workspace
}

// bond names the pools and claims to which the record of a pool binds it.
type bond struct {
	above     ledger.PoolID
	holder    ledger.ClaimID
	countsFor ledger.ClusterName
}

func newKin() kin {
	return kin{of: map[ledger.PoolID]bond{}, below: map[ledger.PoolID]map[ledger.PoolID]struct{}{}, held: map[ledger.ClaimID]map[ledger.PoolID]struct{}{}, counted: map[ledger.ClusterName]map[ledger.PoolID]struct{}{}}
}

// put notes the record of a pool.
func (k *kin) put(p ledger.Pool) {
	now := bond{above: p.Above(), countsFor: p.CountsFor()}
	if p.Derived != nil {
		now.holder = p.Derived.Holder.Claim
	}
	if now == k.of[p.ID] {
		return
	}
	k.remove(p.ID)
	k.of[p.ID] = now
	add(k.below, now.above, p.ID)
	add(k.held, now.holder, p.ID)
	add(k.counted, now.countsFor, p.ID)
}

// remove forgets a pool.
func (k *kin) remove(id ledger.PoolID) {
	was := k.of[id]
	delete(k.of, id)
	remove(k.below, was.above, id)
	remove(k.held, was.holder, id)
	remove(k.counted, was.countsFor, id)
}

func add[K ~string](sets map[K]map[ledger.PoolID]struct{}, key K, id ledger.PoolID) {
	if key == "" {
		return
	}
	if sets[key] == nil {
		sets[key] = map[ledger.PoolID]struct{}{}
	}
	sets[key][id] = struct{}{}
}

func remove[K ~string](sets map[K]map[ledger.PoolID]struct{}, key K, id ledger.PoolID) {
	delete(sets[key], id)
	if len(sets[key]) == 0 {
		delete(sets, key)
	}
}
