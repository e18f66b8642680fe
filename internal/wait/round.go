package wait

import (
	"container/heap"
	"iter"
	"slices"
	"time"
)

// Round returns, one after the other, the waiters that a list had for some things when the round began. It skips a
// waiter that has left the list or was put again since. To begin a round takes time in proportion to the number of
// tenants; each waiter takes time logarithmic in that number.
type Round[K, T comparable, V any] struct {
	began  uint64 // List.puts when the round began
	heads  heads[K, T, V]
	passed map[*Waiter[K, T, V]]struct{} // of the waiters for several things, those that were passed over
	given  bool                          // the waiter at the top was returned
}

// On begins a round over the waiters for any of the things: tenants take turns, and the waiters of one tenant come
// oldest first.
func (l *List[K, T, V]) On(things ...T) *Round[K, T, V] { return l.round(true, things) }

// OldestFirst begins a round over the waiters for any of the things, oldest first, whatever their tenants.
func (l *List[K, T, V]) OldestFirst(things ...T) *Round[K, T, V] { return l.round(false, things) }

func (l *List[K, T, V]) round(turns bool, things []T) *Round[K, T, V] {
	r := &Round[K, T, V]{began: l.puts, heads: heads[K, T, V]{list: l, turns: turns}}
	for i, thing := range things {
		if !slices.Contains(things[:i], thing) {
			r.heads.of = slices.Grow(r.heads.of, len(l.lanes[thing]))
			for _, of := range l.lanes[thing] {
				r.heads.Push(of)
			}
		}
	}
	heap.Init(&r.heads)
	return r
}

// Of begins a round over the waiters of one tenant for any of the things, oldest first.
func (l *List[K, T, V]) Of(tenant string, things ...T) *Round[K, T, V] {
	r := &Round[K, T, V]{began: l.puts, heads: heads[K, T, V]{list: l}}
	for i, thing := range things {
		if of := l.lanes[thing][l.turns[tenant]]; of != nil && !slices.Contains(things[:i], thing) {
			r.heads.Push(of)
		}
	}
	heap.Init(&r.heads)
	return r
}

// Next returns the next waiter of the round, or nil at the end. It passes over the waiter that it returned before,
// unless Again was called.
func (r *Round[K, T, V]) Next() *Waiter[K, T, V] {
	if r.given {
		r.advance()
	}
	for r.given = false; len(r.heads.of) > 0; {
		top := &r.heads.of[0]
		w := top.at
		_, passed := r.passed[w]
		switch {
		case w.left, w.put > r.began, passed:
			r.advance()
		case top.served != w.turn.served: // the head moves to the place of its tenant
			top.served = w.turn.served
			heap.Fix(&r.heads, 0)
		default:
			r.given = true
			return w
		}
	}
	return nil
}

// All yields the remaining waiters of the round.
func (r *Round[K, T, V]) All() iter.Seq[*Waiter[K, T, V]] {
	return func(yield func(*Waiter[K, T, V]) bool) {
		for w := r.Next(); w != nil && yield(w); w = r.Next() {
			continue
		}
	}
}

// Again lets Next return the same waiter once more, when it is the turn of that waiter.
func (r *Round[K, T, V]) Again() { r.given = false }

// Leave passes over the waiter that Next has returned, and over all other waiters of its tenant for the same thing.
func (r *Round[K, T, V]) Leave() {
	if r.given {
		r.pass()
		heap.Pop(&r.heads)
	}
	r.given = false
}

// advance passes over the waiter at the top, and moves the top head to the next waiter of its lane.
func (r *Round[K, T, V]) advance() {
	r.pass()
	top := &r.heads.of[0]
	var next *Waiter[K, T, V]
	top.lane.AscendGreaterOrEqual(top.at, func(w *Waiter[K, T, V]) bool {
		if w == top.at {
			return true
		}
		next = w
		return false
	})
	if next == nil {
		heap.Pop(&r.heads)
		return
	}
	top.at, top.since, top.served = next, next.Since, next.turn.served
	heap.Fix(&r.heads, 0)
}

// pass notes that the waiter at the top was passed over, if the lane of another thing may bring it again.
func (r *Round[K, T, V]) pass() {
	w := r.heads.of[0].at
	if len(w.Things) < 2 {
		return
	}
	if r.passed == nil {
		r.passed = map[*Waiter[K, T, V]]struct{}{}
	}
	r.passed[w] = struct{}{}
}

// head says how far a round has come in a lane.
type head[K, T comparable, V any] struct {
	lane   *lane[K, T, V]
	at     *Waiter[K, T, V]
	since  time.Time // a copy of at.Since: most comparisons need no more
	served uint64    // a copy of turn.served, from when the head took its place in the heap
}

// heads are the lanes of a round as a heap. If a tenant was served since its head took its place, the head stands too
// early. Next moves it when it comes to the top: a tenant's place only moves back.
type heads[K, T comparable, V any] struct {
	list  *List[K, T, V]
	turns bool
	of    []head[K, T, V]
}

// Len implements heap.Interface.
func (h *heads[K, T, V]) Len() int { return len(h.of) }

// Less implements heap.Interface.
func (h *heads[K, T, V]) Less(i, j int) bool {
	a, b := &h.of[i], &h.of[j]
	if h.turns && a.served != b.served {
		return a.served < b.served
	}
	if by := a.since.Compare(b.since); by != 0 {
		return by < 0
	}
	return h.list.before(a.at, b.at)
}

// Swap implements heap.Interface.
func (h *heads[K, T, V]) Swap(i, j int) { h.of[i], h.of[j] = h.of[j], h.of[i] }

// Push implements heap.Interface. It adds a lane.
func (h *heads[K, T, V]) Push(x any) {
	of := x.(*lane[K, T, V])
	oldest, _ := of.Min()
	h.of = append(h.of, head[K, T, V]{lane: of, at: oldest, since: oldest.Since, served: oldest.turn.served})
}

// Pop implements heap.Interface. It always returns nil.
func (h *heads[K, T, V]) Pop() any {
	h.of = h.of[:len(h.of)-1]
	return nil
}
