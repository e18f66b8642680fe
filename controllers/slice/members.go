package slice

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// state is how far a workspace is with its slice of a pool.
type state int

const (
	settled   state = iota // it has its slice, or gets none
	unseen                 // it has not been reconciled yet
	waiting                // it waits until another workspace gives up a slice
	unplaced               // it has a child pool, which waits for room
	nameTaken              // it has a pool of its own by that name
	draining               // its slice is given up, and its block is in use
	states                 // how many states there are
)

// counts is how many workspaces are in each state. The number of settled ones is not kept.
type counts [states]int

// memberList has the state of each workspace that may have a slice of one pool, except settled ones.
type memberList struct {
	version version
	members map[ledger.ClusterName]membership
	counts  counts
	carried map[ledger.ClusterName]ledger.PoolID // the children that the ledger's records are known to name
	told    map[ledger.ClusterName]state         // the state that each workspace was last told of
}

// version identifies the state of a pool when all its members were queued.
type version struct {
	pool       ledger.PoolID
	generation int64
	stage      stage
}

type membership struct {
	state state
	since time.Time
}

// memberLists are the member lists of all pools with slices, by the pool's name. The zero value is ready; safe for
// concurrent use.
type memberLists struct {
	mu     sync.Mutex
	byName map[string]*memberList
}

// with calls f with the list of a pool, while it holds the lock. If the pool has no list, it does nothing.
func (r *memberLists) with(pool string, f func(*memberList)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.byName[pool]; l != nil {
		f(l)
	}
}

// pools lists the pools that have a list.
func (r *memberLists) pools() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.byName))
}

// owner returns the ID of the pool that has the list of this name; empty: there is no list.
func (r *memberLists) owner(pool string) (id ledger.PoolID) {
	r.with(pool, func(l *memberList) { id = l.version.pool })
	return id
}

// open makes a list for a pool, unless the pool has one. stale is true if its members were not queued for this version
// of the pool yet.
func (r *memberLists) open(pool string, now version) (stale bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.byName[pool]; l != nil && l.version.pool == now.pool {
		return l.version != now
	}
	if r.byName == nil {
		r.byName = map[string]*memberList{}
	}
	r.byName[pool] = &memberList{
		version: version{pool: now.pool},
		members: map[ledger.ClusterName]membership{},
		carried: map[ledger.ClusterName]ledger.PoolID{},
		told:    map[ledger.ClusterName]state{},
	}
	return true
}

// checked notes that all members are queued for this version of the pool.
func (r *memberLists) checked(pool string, now version) {
	r.with(pool, func(l *memberList) { l.version = now })
}

// close removes the list of a pool.
func (r *memberLists) close(pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byName, pool)
}

// expect adds a workspace that is not on the list yet.
func (r *memberLists) expect(at request) {
	r.with(at.pool, func(l *memberList) {
		if _, known := l.members[at.cluster]; !known {
			l.members[at.cluster] = membership{state: unseen}
			l.counts[unseen]++
		}
	})
}

// set notes the state of a workspace, and returns the state before.
func (r *memberLists) set(at request, now membership) (before state) {
	before = now.state
	r.with(at.pool, func(l *memberList) {
		before = l.members[at.cluster].state
		l.counts[before]-- // the number of settled ones is not used
		l.counts[now.state]++
		if before != now.state {
			delete(l.told, at.cluster)
		}
		if l.members[at.cluster] = now; now.state == settled {
			delete(l.members, at.cluster)
		}
	})
	return before
}

// tell notes that a workspace is told of its state. news is true if it was not told of this state before.
func (r *memberLists) tell(at request, now state) (news bool) {
	r.with(at.pool, func(l *memberList) {
		news = l.told[at.cluster] != now
		l.told[at.cluster] = now
	})
	return news
}

// counts returns how many members of a pool are in each state.
func (r *memberLists) counts(pool string) (now counts) {
	r.with(pool, func(l *memberList) { now = l.counts })
	return now
}

// inState lists the members of a pool that are in this state.
func (r *memberLists) inState(pool string, as state) (list []ledger.ClusterName) {
	r.with(pool, func(l *memberList) {
		for cluster, m := range l.members {
			if m.state == as {
				list = append(list, cluster)
			}
		}
	})
	return list
}

// first returns the member that has waited longest, and since when.
func (r *memberLists) first(pool string) (cluster ledger.ClusterName, since time.Time, ok bool) {
	r.with(pool, func(l *memberList) {
		if l.counts[waiting] == 0 {
			return
		}
		for c, m := range l.members {
			if m.state == waiting && (!ok || older(c, m.since, cluster, since)) {
				cluster, since, ok = c, m.since, true
			}
		}
	})
	return cluster, since, ok
}

// older reports whether workspace a, which waits since sinceA, comes before workspace b.
func older(a ledger.ClusterName, sinceA time.Time, b ledger.ClusterName, sinceB time.Time) bool {
	return cmp.Or(sinceA.Compare(sinceB), cmp.Compare(a, b)) < 0
}

// child returns the child that the ledger's record is known to name; empty: none is known.
func (r *memberLists) child(at request) (id ledger.PoolID) {
	r.with(at.pool, func(l *memberList) { id = l.carried[at.cluster] })
	return id
}

// carry notes the child that the ledger's record names; empty: the record names none.
func (r *memberLists) carry(at request, child ledger.PoolID) {
	r.with(at.pool, func(l *memberList) {
		if l.carried[at.cluster] = child; child == "" {
			delete(l.carried, at.cluster)
		}
	})
}
