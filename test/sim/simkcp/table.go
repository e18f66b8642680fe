package simkcp

import (
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
func (p place) key() string { return p.cluster + "/" + p.namespace + "/" + p.name }

// event is a change, as watches show it.
type event struct {
	revision int64
	kind     string
	place    place
	object   []byte
}

// table has the objects of a kind, and their changes since a revision. The mutex of the world guards it.
type table struct {
	kind
	objects map[place][]byte
	log     []event
	begin   int64
}

// since returns the changes after a revision. It reports false if they are compacted.
func (t *table) since(revision int64) ([]event, bool) {
	i := sort.Search(len(t.log), func(i int) bool { return t.log[i].revision > revision })
	return t.log[i:], revision >= t.begin
}

// scope bounds the objects that a request sees. An empty cluster is all of them.
type scope struct {
	virtual            bool
	cluster, namespace string
}

func (s scope) covers(p place) bool {
	if s.namespace != "" && s.namespace != p.namespace {
		return false
	}
	if s.cluster != "" {
		return s.cluster == p.cluster
	}
	return !s.virtual || p.cluster != Platform
}

// list returns the objects of a scope in order.
func (t *table) list(in scope) (objects [][]byte) {
	var places []place
	for p := range t.objects {
		if in.covers(p) {
			places = append(places, p)
		}
	}
	sort.Slice(places, func(i, j int) bool { return places[i].key() < places[j].key() })
	for _, p := range places {
		objects = append(objects, t.objects[p])
	}
	return objects
}
