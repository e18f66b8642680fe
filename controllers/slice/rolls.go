package slice

import (
	"cmp"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
)

// standing is what a workspace has of a pool, where that is worth a word.
type standing int

const (
	settled   standing = iota // it has its slice, or is to have none
	unseen                    // it was not looked at yet
	waiting                   // it waits until another gives up a slice
	unplaced                  // it has a child pool, which waits for room
	nameTaken                 // it has a pool of its own by that name
	draining                  // its slice is given up, and its block is in use
	standings                 // how many there are
)

// census counts who stands how. Nobody counts those who are settled.
type census [standings]int

// roll is who stands how with one pool. Who is settled is not on it.
type roll struct {
	edition edition
	members map[allocator.ClusterName]place
	census  census
	carried map[allocator.ClusterName]allocator.PoolID // children known to be on record
	told    map[allocator.ClusterName]standing         // who was told how it stands
}

// edition is the state of a pool for which all workspaces were looked at.
type edition struct {
	pool       allocator.PoolID
	generation int64
	stage      stage
}

type place struct {
	standing standing
	since    time.Time
}

// rolls are the rolls of all pools with slices, by name. The zero value is ready; safe
// for concurrent use.
type rolls struct {
	mu     sync.Mutex
	byName map[string]*roll
}

// known reports whether there is a roll of the pool.
func (r *rolls) known(pool string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byName[pool] != nil
}

// pools lists the pools that have a roll.
func (r *rolls) pools() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make([]string, 0, len(r.byName))
	for name := range r.byName {
		names = append(names, name)
	}
	return names
}

// open makes a roll for a pool, unless it has one.
func (r *rolls) open(pool string, id allocator.PoolID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.byName[pool]; l != nil && l.edition.pool == id {
		return
	}
	if r.byName == nil {
		r.byName = map[string]*roll{}
	}
	r.byName[pool] = &roll{
		edition: edition{pool: id},
		members: map[allocator.ClusterName]place{},
		carried: map[allocator.ClusterName]allocator.PoolID{},
		told:    map[allocator.ClusterName]standing{},
	}
}

// current reports whether all workspaces were looked at for this state of the pool.
func (r *rolls) current(pool string, e edition) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byName[pool]
	return l != nil && l.edition == e
}

// publish notes that all workspaces are looked at for this state of the pool.
func (r *rolls) publish(pool string, e edition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.byName[pool]; l != nil {
		l.edition = e
	}
}

// owner is the pool that the roll of that name is of.
func (r *rolls) owner(pool string) (id allocator.PoolID, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.byName[pool]; l != nil {
		return l.edition.pool, true
	}
	return "", false
}

// close ends the roll of a pool.
func (r *rolls) close(pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byName, pool)
}

// expect notes that a workspace is looked at soon, unless more is known of it.
func (r *rolls) expect(at request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byName[at.pool]
	if l == nil {
		return
	}
	if _, known := l.members[at.cluster]; !known {
		l.members[at.cluster] = place{standing: unseen}
		l.census[unseen]++
	}
}

// stand notes how a workspace stands, and returns how it did before.
func (r *rolls) stand(at request, now place) (before standing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byName[at.pool]
	if l == nil {
		return now.standing
	}
	before = l.members[at.cluster].standing
	l.census[before]-- // of those who are settled it is of no account
	l.census[now.standing]++
	if before != now.standing {
		delete(l.told, at.cluster)
	}
	if now.standing == settled {
		delete(l.members, at.cluster)
	} else {
		l.members[at.cluster] = now
	}
	return before
}

// tell notes that a workspace is told how it stands, and reports whether that is news.
func (r *rolls) tell(at request, now standing) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byName[at.pool]
	if l == nil || l.told[at.cluster] == now {
		return false
	}
	l.told[at.cluster] = now
	return true
}

// census counts who stands how with a pool.
func (r *rolls) census(pool string) census {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.byName[pool]; l != nil {
		return l.census
	}
	return census{}
}

// those lists who stands so.
func (r *rolls) those(pool string, as standing) []allocator.ClusterName {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byName[pool]
	if l == nil || l.census[as] == 0 {
		return nil
	}
	var list []allocator.ClusterName
	for cluster, p := range l.members {
		if p.standing == as {
			list = append(list, cluster)
		}
	}
	return list
}

// first is who has waited longest, and since when.
func (r *rolls) first(pool string) (cluster allocator.ClusterName, since time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byName[pool]
	if l == nil || l.census[waiting] == 0 {
		return "", time.Time{}, false
	}
	for c, p := range l.members {
		if p.standing == waiting && (!ok || older(c, p.since, cluster, since)) {
			cluster, since, ok = c, p.since, true
		}
	}
	return cluster, since, ok
}

// older reports whether a workspace comes before another.
func older(a allocator.ClusterName, sinceA time.Time, b allocator.ClusterName, sinceB time.Time) bool {
	return cmp.Or(sinceA.Compare(sinceB), cmp.Compare(a, b)) < 0
}

// carries reports whether a child is known to be on record.
func (r *rolls) carries(at request, child allocator.PoolID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byName[at.pool]
	return l != nil && l.carried[at.cluster] == child
}

// carry notes the child that is on record; an empty one is none.
func (r *rolls) carry(at request, child allocator.PoolID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.byName[at.pool]; l != nil && child != "" {
		l.carried[at.cluster] = child
	} else if l != nil {
		delete(l.carried, at.cluster)
	}
}
