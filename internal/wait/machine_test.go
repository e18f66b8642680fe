package wait_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kcp-ipam/ipam/internal/wait"
)

// machine applies the same steps to a list and to its twin.
type machine struct {
	list *list
	twin *twin
}

func newMachine() *machine {
	return &machine{list: wait.New[int, int, int](cmp.Compare), twin: &twin{turns: map[string]int{}}}
}

// args are the arguments of a step.
type args [3]byte

var tenants = []string{"a", "b", "c", "d"}

func (a args) key() int       { return int(a[0]) % 24 }
func (a args) tenant() string { return tenants[int(a[1])%len(tenants)] }

// things returns some of five things, perhaps none, and perhaps each twice.
func (a args) things() (all []int) {
	for thing := range 5 {
		if a[2]>>thing&1 == 1 {
			all = append(all, thing)
		}
	}
	if a[2]>>6 == 3 {
		all = append(all, all...)
	}
	return all
}

// steps are the operations of a list. Inputs of FuzzList name a step by its index: append only.
var steps = []struct {
	name string
	do   func(*machine, args) error
}{
	{"Put", func(m *machine, a args) error { m.put(a, a.things()); return nil }},
	{"PutForOne", func(m *machine, a args) error { m.put(a, []int{int(a[2]) % 5}); return nil }},
	{"Drop", func(m *machine, a args) error { m.drop(a.key()); return nil }},
	{"Serve", func(m *machine, a args) error { m.serve(a.key()); return nil }},
	{"On", func(m *machine, a args) error {
		return m.walk(a, m.list.On(a.things()...), m.twin.round(true, "", a.things()))
	}},
	{"OldestFirst", func(m *machine, a args) error {
		return m.walk(a, m.list.OldestFirst(a.things()...), m.twin.round(false, "", a.things()))
	}},
	{"Of", func(m *machine, a args) error {
		return m.walk(a, m.list.Of(a.tenant(), a.things()...), m.twin.round(false, a.tenant(), a.things()))
	}},
}

func (m *machine) put(a args, things []int) {
	since := time.Unix(int64(a[1]>>2)%8, 0)
	m.twin.put(waiter{key: a.key(), tenant: a.tenant(), since: since, things: things})
	m.list.Put(a.key(), a.tenant(), since, m.twin.puts, things...)
}

func (m *machine) drop(key int) {
	m.list.Drop(key)
	m.twin.drop(key)
}

func (m *machine) serve(key int) {
	m.list.Serve(key)
	m.twin.serve(key)
}

// walk goes through a round of the list and one of the twin, changes both meanwhile, and compares each waiter.
func (m *machine) walk(a args, got *wait.Round[int, int, int], want *round) error {
	random := uint(a[0])<<8 + uint(a[1])
	for range 100 {
		w := got.Next()
		next, ok := want.next()
		if err := same(w, next, ok); err != nil || !ok {
			return err
		}
		random = random*75 + 74
		switch random >> 4 % 8 {
		case 0: // another waiter is served in place of this one
			got.Again()
			want.again()
			m.drop(int(random>>8) % 24)
			m.serve(next.key)
		case 1:
			if len(next.things) == 1 {
				got.Leave()
				want.leave()
			}
		case 2:
			m.serve(next.key)
		case 3:
			m.serve(next.key)
			m.drop(next.key)
		case 4:
			m.put(args{byte(next.key), byte(random >> 8), 0}, []int{int(random>>16) % 5})
		case 5:
			m.drop(int(random>>8) % 24)
		}
	}
	return errors.New("the round does not end")
}

// same compares a waiter of the list with one of the twin. ok is false if the twin has none.
func same(got *wait.Waiter[int, int, int], want waiter, ok bool) error {
	switch {
	case got == nil && !ok:
		return nil
	case got == nil || !ok:
		return fmt.Errorf("got %+v, want %+v, %t", got, want, ok)
	case got.Key != want.key || got.Tenant != want.tenant || !got.Since.Equal(want.since) || got.Value != want.value ||
		!slices.Equal(got.Things, want.things):
		return fmt.Errorf("got %+v, want %+v", got, want)
	}
	return nil
}

// compare compares every answer of the list with that of its twin.
func (m *machine) compare() error {
	if got := m.list.Len(); got != len(m.twin.waiters) {
		return fmt.Errorf("Len() = %d, want %d", got, len(m.twin.waiters))
	}
	n := 0
	for w := range m.list.All() {
		n++
		want, ok := m.twin.get(w.Key)
		if err := same(w, want, ok); err != nil {
			return fmt.Errorf("All: %w", err)
		}
	}
	if n != m.list.Len() {
		return fmt.Errorf("All yields %d of %d", n, m.list.Len())
	}
	for key := range 24 {
		want, ok := m.twin.get(key)
		if err := same(m.list.Get(key), want, ok); err != nil {
			return fmt.Errorf("Get(%d): %w", key, err)
		}
	}
	things := slices.Collect(m.list.Things())
	for thing := range 5 {
		all := 0
		for _, tenant := range tenants {
			want := m.twin.count(tenant, thing)
			if got := m.list.Count(tenant, thing); got != want {
				return fmt.Errorf("Count(%s, %d) = %d, want %d", tenant, thing, got, want)
			}
			all += want
		}
		if got := slices.Contains(things, thing); got != (all > 0) {
			return fmt.Errorf("Things yields %d: %t, and %d wait for it", thing, got, all)
		}
	}
	return nil
}
