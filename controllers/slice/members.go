package slice

import (
	"cmp"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// state is what a workspace has of a pool with slices.
type state int

const (
	settled   state = iota // it has its slice, or is to have none
	unseen                 // it has not been reconciled yet
	waiting                // it waits until another gives up a slice
	unplaced               // it has a child pool, which waits for room
	nameTaken              // it has a pool of its own by that name
	draining               // its slice is given up, and its block is in use
	states                 // how many there are
)

// counts is how many workspaces are in each state. Settled ones are not counted.
type counts [states]int

// memberList is the state of each workspace that may have a slice of one pool. Settled ones are left out.
type memberList struct {
	version version
	members map[ledger.ClusterName]membership
	counts  counts
	carried map[ledger.ClusterName]ledger.PoolID // children known to be on record
	told    map[ledger.ClusterName]state         // the state that a workspace was last shown
}

// version identifies what a pool was when all its members were queued.
type version struct {
	pool       ledger.PoolID
	generation int64
	stage      stage
}

type membership struct {
	state state
	since time.Time
}

// memberLists are those of all pools with slices, by name. The zero value is ready; safe for concurrent
// use.
type memberLists struct {
	mu     sync.Mutex
	byName map[string]*memberList
}

// known reports whether the pool has a list.
func (r *memberLists) known(pool string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byName[pool] != nil
}

// pools lists the pools that have a list.
func (r *memberLists) pools() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make([]string, 0, len(r.byName))
	for name := range r.byName {
		names = append(names, name)
	}
	return names
}

// open makes a list for a pool, unless it has one.
func (r *memberLists) open(pool string, id ledger.PoolID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.byName[pool]; l != nil && l.version.pool == id {
		return
	}
	if r.byName == nil {
		r.byName = map[string]*memberList{}
	}
	r.byName[pool] = &memberList{
		version: version{pool: id},
		members: map[ledger.ClusterName]membership{},
		carried: map[ledger.ClusterName]ledger.PoolID{},
		told:    map[ledger.ClusterName]state{},
	}
}

// current reports whether all members were queued for this version of the pool.
func (r *memberLists) current(pool string, e version) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byName[pool]
	return l != nil && l.version == e
}

// checked notes that all members are queued for this version of the pool.
func (r *memberLists) checked(pool string, e version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.byName[pool]; l != nil {
		l.version = e
	}
}

// owner is the pool to which the list of that name belongs.
func (r *memberLists) owner(pool string) (id ledger.PoolID, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.byName[pool]; l != nil {
		return l.version.pool, true
	}
	return "", false
}

// close removes the list of a pool.
func (r *memberLists) close(pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byName, pool)
}

// expect adds a workspace that is not on the list yet.
func (r *memberLists) expect(at request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byName[at.pool]
	if l == nil {
		return
	}
	if _, known := l.members[at.cluster]; !known {
		l.members[at.cluster] = membership{state: unseen}
		l.counts[unseen]++
	}
}

// set notes the state of a workspace, and returns the one before.
func (r *memberLists) set(at request, now membership) (before state) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byName[at.pool]
	if l == nil {
		return now.state
	}
	before = l.members[at.cluster].state
	l.counts[before]-- // the number of settled ones is not used
	l.counts[now.state]++
	if before != now.state {
		delete(l.told, at.cluster)
	}
	if now.state == settled {
		delete(l.members, at.cluster)
	} else {
		l.members[at.cluster] = now
	}
	return before
}

// tell notes that a workspace is told of its state, and reports whether it was not told before.
func (r *memberLists) tell(at request, now state) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byName[at.pool]
	if l == nil || l.told[at.cluster] == now {
		return false
	}
	l.told[at.cluster] = now
	return true
}

// counts is how many members of a pool are in each state.
func (r *memberLists) counts(pool string) counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.byName[pool]; l != nil {
		return l.counts
	}
	return counts{}
}

// inState lists the members of a pool in a state.
func (r *memberLists) inState(pool string, as state) []ledger.ClusterName {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byName[pool]
	if l == nil || l.counts[as] == 0 {
		return nil
	}
	var list []ledger.ClusterName
	for cluster, p := range l.members {
		if p.state == as {
			list = append(list, cluster)
		}
	}
	return list
}

// first is the member that has waited longest, and since when.
func (r *memberLists) first(pool string) (cluster ledger.ClusterName, since time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byName[pool]
	if l == nil || l.counts[waiting] == 0 {
		return "", time.Time{}, false
	}
	for c, p := range l.members {
		if p.state == waiting && (!ok || older(c, p.since, cluster, since)) {
			cluster, since, ok = c, p.since, true
		}
	}
	return cluster, since, ok
}

// older reports whether a workspace comes before another.
func older(a ledger.ClusterName, sinceA time.Time, b ledger.ClusterName, sinceB time.Time) bool {
	return cmp.Or(sinceA.Compare(sinceB), cmp.Compare(a, b)) < 0
}

// carries reports whether a child is known to be on record.
func (r *memberLists) carries(at request, child ledger.PoolID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byName[at.pool]
	return l != nil && l.carried[at.cluster] == child
}

// carry notes the child that is on record; an empty one is none.
func (r *memberLists) carry(at request, child ledger.PoolID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.byName[at.pool]; l != nil && child != "" {
		l.carried[at.cluster] = child
	} else if l != nil {
		delete(l.carried, at.cluster)
	}
}
