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

// List keeps the waiters for things. The tenant that was served longest ago is next, and among those that were not served
// yet, the one with the oldest waiter. So many old waiters of one tenant do not keep all others waiting. A tenant that
// begins to wait comes after all that have waited longer for their turn. Make one by New. It is not safe for concurrent
// use.
type List[K, T comparable, V any] struct {
	waiters map[K]*Waiter[K, T, V]
	turns   map[string]*turn
	lanes   map[T]map[string]*lane[K, T, V] // by thing and tenant; none is empty
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
		waiters: map[K]*Waiter[K, T, V]{}, turns: map[string]*turn{}, lanes: map[T]map[string]*lane[K, T, V]{},
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
	l.puts++
	of := l.turns[tenant]
	if of == nil {
		of = &turn{served: l.served}
		l.turns[tenant] = of
	}
	of.waiters++ // before the former one goes
	l.Drop(key)
	w := &Waiter[K, T, V]{Key: key, Tenant: tenant, Since: since, Things: things, Value: value, turn: of, put: l.puts}
	l.waiters[key] = w
	for _, thing := range things {
		if l.lanes[thing] == nil {
			l.lanes[thing] = map[string]*lane[K, T, V]{}
		}
		if l.lanes[thing][tenant] == nil {
			l.lanes[thing][tenant] = btree.NewWithFreeListG(32, l.before, l.nodes)
		}
		l.lanes[thing][tenant].ReplaceOrInsert(w)
	}
}

// Drop removes the waiter with a key, if there is one. A tenant without waiters loses its turn.
func (l *List[K, T, V]) Drop(key K) {
	w := l.waiters[key]
	if w == nil {
		return
	}
	w.left = true
	delete(l.waiters, key)
	if w.turn.waiters--; w.turn.waiters == 0 {
		delete(l.turns, w.Tenant)
	}
	for _, thing := range w.Things {
		of := l.lanes[thing]
		if of[w.Tenant] == nil {
			continue // it named the thing twice
		}
		if of[w.Tenant].Delete(w); of[w.Tenant].Len() == 0 {
			delete(of, w.Tenant)
		}
		if len(of) == 0 {
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
	if of := l.lanes[thing][tenant]; of != nil {
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
