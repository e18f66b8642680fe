package space

import (
	"maps"
	"slices"
	"strings"
	"unique"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// kin finds the pools that belong together: those below a pool, those that a claim holds, those that count for a
// workspace without being in it, and those of one name. The lock of the table guards it.
type kin struct {
	of      map[ledger.PoolID]bond // the bond of each pool that has one
	below   map[ledger.PoolID]map[ledger.PoolID]struct{}
	held    map[ledger.ClaimID]map[ledger.PoolID]struct{}
	counted map[ledger.ClusterName]map[ledger.PoolID]struct{} // pools that count for a workspace
	named   map[string]map[ledger.PoolID]struct{}             // derived pools by workspace and name: see nameOf
	roles   map[share]map[string]int                          // how many address spaces have each set of roles; none is 0
}

// bond has the pools, claims and names that connect a pool with others, as its record says.
type bond struct {
	above     ledger.PoolID
	holder    ledger.ClaimID
	countsFor ledger.ClusterName
	workspace ledger.ClusterName // of an address space: the workspace that it is for
	roles     string             // of an address space: see rolesOf
	name      string             // of a derived pool: see nameOf
}

// share names the address spaces of one pool for one workspace.
type share struct {
	of        ledger.PoolID
	workspace ledger.ClusterName
}

func newKin() kin {
	return kin{
		of:      map[ledger.PoolID]bond{},
		below:   map[ledger.PoolID]map[ledger.PoolID]struct{}{},
		held:    map[ledger.ClaimID]map[ledger.PoolID]struct{}{},
		counted: map[ledger.ClusterName]map[ledger.PoolID]struct{}{},
		named:   map[string]map[ledger.PoolID]struct{}{},
		roles:   map[share]map[string]int{},
	}
}

// rolesOf returns the roles of a scope as one text. Address spaces with the same roles share the text in memory. No two
// sets of roles have the same text, because no role has a comma.
func rolesOf(scope ledger.Scope) string {
	return unique.Make(strings.Join(slices.Sorted(maps.Keys(scope)), ",")).Value()
}

// nameOf returns the workspace and the name of a pool as one text. No name of a workspace has a slash.
func nameOf(c ledger.ClusterName, name string) string { return string(c) + "/" + name }

// put notes the record of a pool.
func (k *kin) put(p ledger.Pool) {
	now := bond{above: p.Above(), countsFor: p.CountsFor()}
	if p.Derived != nil {
		now.holder = p.Derived.Holder.Claim
		if p.Derived.Of != "" {
			now.workspace, now.roles = p.Derived.Workspace, rolesOf(p.Derived.Scope)
		}
	}
	if ledger.IsDerived(p.ID) {
		now.name = nameOf(p.Cluster, p.Name)
	}
	if now == k.of[p.ID] {
		return
	}
	k.remove(p.ID)
	k.of[p.ID] = now
	add(k.below, now.above, p.ID)
	add(k.held, now.holder, p.ID)
	add(k.counted, now.countsFor, p.ID)
	add(k.named, now.name, p.ID)
	k.count(now, 1)
}

// remove forgets a pool.
func (k *kin) remove(id ledger.PoolID) {
	was := k.of[id]
	delete(k.of, id)
	remove(k.below, was.above, id)
	remove(k.held, was.holder, id)
	remove(k.counted, was.countsFor, id)
	remove(k.named, was.name, id)
	k.count(was, -1)
}

// count adds n to the number of address spaces that have the roles of a bond.
func (k *kin) count(b bond, n int) {
	if b.roles == "" {
		return
	}
	in := share{b.above, b.workspace}
	if k.roles[in] == nil {
		k.roles[in] = map[string]int{}
	}
	if k.roles[in][b.roles] += n; k.roles[in][b.roles] == 0 {
		delete(k.roles[in], b.roles)
	}
	if len(k.roles[in]) == 0 {
		delete(k.roles, in)
	}
}

// differs reports whether the workspace of an address space has another address space of the same pool, for other
// roles.
func (k *kin) differs(made ledger.Derived) bool {
	roles := rolesOf(made.Scope)
	for others := range k.roles[share{made.Of, made.Workspace}] {
		if others != roles {
			return true
		}
	}
	return false
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
