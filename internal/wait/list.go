package wait

import (
	"iter"
	"maps"
	"time"

	"github.com/google/btree"
)

// Waiter waits for some things. Only its list changes it.
type Waiter[K, T comparable, V any] struct {
	Key    K
	Tenant string
	Since  time.Time
	Things []T // that it waits for; of none it waits for nothing by now, and keeps the turn of its tenant
	Value  V

	turn *turn
	put  uint64 // counts the waiters of the list
	left bool   // the list has it no more
}

// turn is the place of a tenant in the order.
type turn struct {
	served  uint64 // when the tenant was served last, or began to wait
	waiters int
}

// List keeps the waiters for things. The tenant that was served longest ago is next, and among those that were not
// served yet, the one with the oldest waiter. So many old waiters of one tenant do not keep all others waiting. A
// tenant that begins to wait comes after all that have waited longer for their turn. Make one by New. It is not safe
// for concurrent use.
type List[K, T comparable, V any] struct {
	waiters map[K]*Waiter[K, T, V]
	turns   map[string]*turn
	lanes   map[T]map[*turn]*lane[K, T, V] // by thing and tenant; none is empty
	served  uint64
	puts    uint64
	before  btree.LessFunc[*Waiter[K, T, V]] // orders by age
	nodes   *btree.FreeListG[*Waiter[K, T, V]]
}

// lane is the waiters of one tenant for one thing, oldest first.
type lane[K, T comparable, V any] = btree.BTreeG[*Waiter[K, T, V]]

// New makes an empty list. compare orders keys: of two waiters of one age, the one with the lower key is first.
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

// Put adds a waiter, in place of the one that has its key. The tenant keeps its turn.
func (l *List[K, T, V]) Put(key K, tenant string, since time.Time, value V, things ...T) {
	w := l.waiters[key]
	if w != nil && w.Tenant == tenant && w.Since.Equal(since) { // it keeps its place in the lanes
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

// replace puts a waiter in place of a former one, which may be nil. It returns the waiter, which waits for nothing yet.
func (l *List[K, T, V]) replace(former, w *Waiter[K, T, V]) *Waiter[K, T, V] {
	of := l.turns[w.Tenant]
	if of == nil {
		of = &turn{served: l.served}
		l.turns[w.Tenant] = of
	}
	of.waiters++ // before the former one leaves
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

// leave ends the wait of a waiter, for its tenant and in the lanes.
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
			continue // it named the thing twice
		}
		if of.Delete(w); of.Len() == 0 {
			delete(lanes, w.turn)
		}
		if len(lanes) == 0 {
			delete(l.lanes, thing)
		}
	}
}

// Get returns the waiter with a key; nil: there is none.
func (l *List[K, T, V]) Get(key K) *Waiter[K, T, V] { return l.waiters[key] }

// Len counts the waiters.
func (l *List[K, T, V]) Len() int { return len(l.waiters) }

// All yields the waiters, in no order.
func (l *List[K, T, V]) All() iter.Seq[*Waiter[K, T, V]] { return maps.Values(l.waiters) }

// Things yields each thing for which anybody waits, in no order.
func (l *List[K, T, V]) Things() iter.Seq[T] { return maps.Keys(l.lanes) }

// Count counts the waiters of a tenant for a thing.
func (l *List[K, T, V]) Count(tenant string, thing T) int {
	if of := l.lanes[thing][l.turns[tenant]]; of != nil {
		return of.Len()
	}
	return 0
}

// Serve notes that the tenant of a waiter has had its turn: it goes to the end, in a round that is under way, too.
func (l *List[K, T, V]) Serve(key K) {
	if w := l.waiters[key]; w != nil {
		l.served++
		w.turn.served = l.served
	}
}
