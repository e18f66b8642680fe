package wait

import (
	"iter"
	"maps"
	"time"

	"github.com/google/btree"
)

// Waiter is one entry of a List. Only the list changes it.
type Waiter[K, T comparable, V any] struct {
	Key    K
	Tenant string
	Since  time.Time
	Things []T // the things that it waits for; a waiter without things only keeps the turn of its tenant
	Value  V

	turn *turn
	put  uint64 // List.puts at the last Put of this waiter
	left bool   // it is in the list no longer
}

// turn is the place of a tenant in the order.
type turn struct {
	served  uint64 // List.served when the tenant was last served, or began to wait
	waiters int
}

// List keeps waiters for things, and the turns of their tenants. The next tenant is the one that was served longest
// ago; of tenants that were served equally long ago, the one with the oldest waiter. So a tenant with many old waiters
// does not keep the others waiting. A tenant that begins to wait counts as served just then. Make a List by New. It is
// not safe for concurrent use.
type List[K, T comparable, V any] struct {
	waiters map[K]*Waiter[K, T, V]
	turns   map[string]*turn
	lanes   map[T]map[*turn]*lane[K, T, V] // by thing and tenant; none is empty
	served  uint64
	puts    uint64
	before  btree.LessFunc[*Waiter[K, T, V]] // orders by age, then by key
	nodes   *btree.FreeListG[*Waiter[K, T, V]]
}

// lane has the waiters of one tenant for one thing, oldest first.
type lane[K, T comparable, V any] = btree.BTreeG[*Waiter[K, T, V]]

// New makes an empty list. compare orders keys: of two waiters of the same age, the one with the lower key comes first.
func New[K, T comparable, V any](compare func(a, b K) int) *List[K, T, V] {
	return &List[K, T, V]{
		waiters: map[K]*Waiter[K, T, V]{}, turns: map[string]*turn{}, lanes: map[T]map[*turn]*lane[K, T, V]{},
		before: func(a, b *Waiter[K, T, V]) bool {
			if by := a.Since.Compare(b.Since); by != 0 {
				return by < 0
			}
			return compare(a.Key, b.Key) < 0
		},
		nodes: btree.NewFreeListG[*Waiter[K, T, V]](btree.DefaultFreeListSize),
	}
}

// Put adds a waiter, or replaces the waiter with this key. A tenant that waits already keeps its turn.
func (l *List[K, T, V]) Put(key K, tenant string, since time.Time, value V, things ...T) {
	w := l.waiters[key]
	if w != nil && w.Tenant == tenant && w.Since.Equal(since) { // the waiter keeps its place in the lanes
		l.unlist(w)
	} else {
		w = l.replace(w, &Waiter[K, T, V]{Key: key, Tenant: tenant, Since: since})
	}
	l.puts++
	w.Value, w.Things, w.put = value, things, l.puts
	for _, thing := range things {
		if l.lanes[thing] == nil {
			l.lanes[thing] = map[*turn]*lane[K, T, V]{}
		}
		of := l.lanes[thing][w.turn]
		if of == nil {
			of = btree.NewWithFreeListG(32, l.before, l.nodes)
			l.lanes[thing][w.turn] = of
		}
		of.ReplaceOrInsert(w)
	}
}

// replace enters w in place of a former waiter with its key; nil: there was none. It returns w, which is in no lane
// yet.
func (l *List[K, T, V]) replace(former, w *Waiter[K, T, V]) *Waiter[K, T, V] {
	of := l.turns[w.Tenant]
	if of == nil {
		of = &turn{served: l.served}
		l.turns[w.Tenant] = of
	}
	of.waiters++ // before the former waiter leaves, so that a tenant of both keeps its turn
	if former != nil {
		l.leave(former)
	}
	w.turn = of
	l.waiters[w.Key] = w
	return w
}

// Drop removes the waiter with a key, if there is one. A tenant without waiters loses its turn.
func (l *List[K, T, V]) Drop(key K) {
	if w := l.waiters[key]; w != nil {
		l.leave(w)
		delete(l.waiters, key)
	}
}

// leave takes a waiter out of its lanes, marks it as left, and drops the turn of a tenant without further waiters. The
// caller takes it out of List.waiters.
func (l *List[K, T, V]) leave(w *Waiter[K, T, V]) {
	w.left = true
	l.unlist(w)
	if w.turn.waiters--; w.turn.waiters == 0 {
		delete(l.turns, w.Tenant)
	}
}

// unlist takes a waiter out of its lanes.
func (l *List[K, T, V]) unlist(w *Waiter[K, T, V]) {
	for _, thing := range w.Things {
		lanes := l.lanes[thing]
		of := lanes[w.turn]
		if of == nil {
			continue // the waiter named the thing twice
		}
		if of.Delete(w); of.Len() == 0 {
			delete(lanes, w.turn)
		}
		if len(lanes) == 0 {
			delete(l.lanes, thing)
		}
	}
}

// Get returns the waiter with a key, or nil.
func (l *List[K, T, V]) Get(key K) *Waiter[K, T, V] { return l.waiters[key] }

// Len counts the waiters.
func (l *List[K, T, V]) Len() int { return len(l.waiters) }

// All yields the waiters, in no particular order.
func (l *List[K, T, V]) All() iter.Seq[*Waiter[K, T, V]] { return maps.Values(l.waiters) }

// Things yields each thing that has waiters, in no particular order.
func (l *List[K, T, V]) Things() iter.Seq[T] { return maps.Keys(l.lanes) }

// Count counts the waiters of a tenant for a thing.
func (l *List[K, T, V]) Count(tenant string, thing T) int {
	if of := l.lanes[thing][l.turns[tenant]]; of != nil {
		return of.Len()
	}
	return 0
}

// Serve notes that the tenant of a waiter had its turn. The tenant goes to the end of the order, also in rounds that
// have begun.
func (l *List[K, T, V]) Serve(key K) {
	if w := l.waiters[key]; w != nil {
		l.served++
		w.turn.served = l.served
	}
}
