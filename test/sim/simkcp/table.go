package simkcp

import (
	"cmp"
	"maps"
	"slices"
	"sort"
)

// The types of events.
const (
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
)

// place is where an object is stored.
type place struct{ cluster, namespace, name string }

// key returns the place in the order of lists.
func (p place) key() string {
	if p.namespace == "" {
		return p.cluster + "/" + p.name
	}
	return p.cluster + "/" + p.namespace + "/" + p.name
}

// event is a change, as watches show it.
type event struct {
	revision int64
	kind     string
	place    place
	object   []byte
	before   []byte // the object as it was; nil: there was none
}

// table has the objects of a kind, and their changes since a revision. The mutex of the world guards it.
type table struct {
	kind
	objects map[place][]byte
	bare    map[place]bool // stored without the annotation of its cluster, which the next write adds
	log     []event
	news    chan struct{} // closed and replaced at each change
	begin   int64
	lost    int64 // the revision of the last change that was forgotten
	shardOf func(cluster string) string
}

// wake wakes the watches. The mutex of the world is held.
func (t *table) wake() {
	close(t.news)
	t.news = make(chan struct{})
}

// forget forgets all changes. The mutex of the world is held.
func (t *table) forget(revision int64) {
	if len(t.log) > 0 {
		t.lost = t.log[len(t.log)-1].revision
	}
	t.log, t.begin = nil, revision
}

// since returns the changes after a revision. It reports false if they are compacted.
func (t *table) since(revision int64) ([]event, bool) {
	i := sort.Search(len(t.log), func(i int) bool { return t.log[i].revision > revision })
	return t.log[i:], revision >= t.begin
}

// scope bounds the objects that a request sees. An empty cluster means all clusters, or all of a shard.
type scope struct {
	virtual            bool
	shard              string // of a virtual scope
	cluster, namespace string
}

// covers reports whether a scope contains a place. The mutex of the world is held.
func (t *table) covers(s scope, p place) bool {
	if s.namespace != "" && s.namespace != p.namespace {
		return false
	}
	if s.cluster != "" {
		return s.cluster == p.cluster
	}
	return !s.virtual || p.cluster != Platform && t.shardOf(p.cluster) == s.shard
}

// at returns the objects as they were at a revision. It reports false if the changes since are compacted.
func (t *table) at(revision int64) (map[place][]byte, bool) {
	since, kept := t.since(revision)
	if len(since) == 0 || !kept {
		return t.objects, kept
	}
	was := maps.Clone(t.objects)
	for _, e := range slices.Backward(since) {
		if e.before == nil {
			delete(was, e.place)
			continue
		}
		was[e.place] = e.before
	}
	return was, true
}

// list returns the objects of a scope in order.
func (t *table) list(in scope) (list [][]byte) {
	for _, p := range t.places(t.objects, in) {
		list = append(list, t.objects[p])
	}
	return list
}

// places returns the places of a scope that have objects, in order.
func (t *table) places(objects map[place][]byte, in scope) (list []place) {
	for p := range objects {
		if t.covers(in, p) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b place) int { return cmp.Compare(a.key(), b.key()) })
	return list
}
