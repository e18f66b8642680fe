package wait_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/kcp-ipam/ipam/internal/wait"
)

// list is the type under test: keys and things are small numbers, and the value counts the calls of Put.
type list = wait.List[int, int, int]

// twin gives the answers of a list from a slice, which it searches from end to end.
type twin struct {
	waiters []waiter // by age, then by key
	turns   map[string]int
	served  int
	puts    int
}

type waiter struct {
	key    int
	tenant string
	since  time.Time
	things []int
	value  int
}

func (t *twin) put(w waiter) {
	t.puts++
	w.value = t.puts
	if _, waits := t.turns[w.tenant]; !waits {
		t.turns[w.tenant] = t.served
	}
	t.waiters = slices.DeleteFunc(t.waiters, func(o waiter) bool { return o.key == w.key })
	t.waiters = append(t.waiters, w)
	slices.SortFunc(t.waiters, func(a, b waiter) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.key, b.key)) })
	t.forget()
}

func (t *twin) drop(key int) {
	t.waiters = slices.DeleteFunc(t.waiters, func(o waiter) bool { return o.key == key })
	t.forget()
}

// forget drops the turns of tenants without waiters.
func (t *twin) forget() {
	for tenant := range t.turns {
		if !slices.ContainsFunc(t.waiters, func(o waiter) bool { return o.tenant == tenant }) {
			delete(t.turns, tenant)
		}
	}
}

func (t *twin) get(key int) (w waiter, ok bool) {
	i := slices.IndexFunc(t.waiters, func(o waiter) bool { return o.key == key })
	if i < 0 {
		return w, false
	}
	return t.waiters[i], true
}

func (t *twin) serve(key int) {
	if w, ok := t.get(key); ok {
		t.served++
		t.turns[w.tenant] = t.served
	}
}

func (t *twin) count(tenant string, thing int) (n int) {
	for _, w := range t.waiters {
		if w.tenant == tenant && slices.Contains(w.things, thing) {
			n++
		}
	}
	return n
}

// lane identifies the waiters of one tenant for one thing.
type lane struct {
	tenant string
	thing  int
}

// round goes through the waiters of a twin as a wait.Round does.
type round struct {
	twin   *twin
	turns  bool
	tenant string // empty: all tenants
	things []int
	began  int
	passed map[int]bool // by the value of the waiter
	left   map[lane]bool
	given  waiter
}

func (t *twin) round(turns bool, tenant string, things []int) *round {
	return &round{twin: t, turns: turns, tenant: tenant, things: things, began: t.puts, passed: map[int]bool{}, left: map[lane]bool{}}
}

// next returns the next waiter of the round; ok is false at its end.
func (r *round) next() (first waiter, ok bool) {
	r.passed[r.given.value] = true
	for _, w := range r.twin.waiters {
		waits := slices.ContainsFunc(w.things, func(thing int) bool {
			return slices.Contains(r.things, thing) && !r.left[lane{w.tenant, thing}]
		})
		if !waits || w.value > r.began || r.passed[w.value] || r.tenant != "" && r.tenant != w.tenant {
			continue
		}
		if !ok || r.turns && r.twin.turns[w.tenant] < r.twin.turns[first.tenant] {
			first, ok = w, true
		}
	}
	r.given = first
	return first, ok
}

func (r *round) again() { r.given = waiter{} }

// leave passes over the lane of the waiter that next has returned. The waiter must wait for one thing alone.
func (r *round) leave() { r.left[lane{r.given.tenant, r.given.things[0]}] = true }
