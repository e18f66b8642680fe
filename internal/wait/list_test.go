package wait_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/internal/wait"
)

// some returns a list of waiters for thing 1: three of tenant a, which are the oldest, and one each of tenants b and c.
func some() *list {
	l := wait.New[int, int, int](cmp.Compare)
	for i, tenant := range []string{"a", "a", "a", "b", "c"} {
		l.Put(i, tenant, time.Unix(int64(i), 0), 0, 1)
	}
	return l
}

// taken serves and drops each waiter of a round, and returns their keys in this order.
func taken(l *list, r *wait.Round[int, int, int]) (keys []int) {
	for w := r.Next(); w != nil; w = r.Next() {
		keys = append(keys, w.Key)
		l.Serve(w.Key)
		l.Drop(w.Key)
	}
	return keys
}

func TestOn_LetsTenantsTakeTurns(t *testing.T) {
	l := some()
	if got, want := taken(l, l.On(1)), []int{0, 3, 4, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("served are %v, want %v", got, want)
	}
}

// A tenant that begins to wait after others were served comes after the tenants whose turn is still to come, though its
// waiter is the oldest.
func TestOn_LetsANewTenantWaitForItsTurn(t *testing.T) {
	l := some()
	l.Serve(0)
	l.Put(5, "new", time.Unix(-1, 0), 0, 1)
	if got, want := taken(l, l.On(1)), []int{3, 4, 5, 0, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("served are %v, want %v", got, want)
	}
}

// A waiter that is put again, with a younger age, does not change the turn of its tenant: the tenant still comes before
// one that was served.
func TestPut_KeepsTheTurn(t *testing.T) {
	l := some()
	l.Serve(0)
	l.Put(3, "b", time.Unix(9, 0), 0, 1)
	if got, want := taken(l, l.On(1)), []int{4, 3, 0, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("served are %v, want %v", got, want)
	}
}

func TestOldestFirst_IgnoresTurns(t *testing.T) {
	l := some()
	l.Put(5, "d", time.Unix(0, 1), 0, 1, 2)
	if got, want := taken(l, l.OldestFirst(1, 2)), []int{0, 5, 1, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("served are %v, want %v", got, want)
	}
}

func TestLeave_PassesOverALane(t *testing.T) {
	l := some()
	r := l.On(1)
	r.Next()
	r.Leave()
	if got, want := taken(l, r), []int{3, 4}; !slices.Equal(got, want) {
		t.Errorf("served are %v, want %v", got, want)
	}
}

// BenchmarkOn measures rounds over many waiters for one thing, all of one tenant or each of its own: to the first
// waiter, and to the last.
func BenchmarkOn(b *testing.B) {
	const many = 20_000
	for _, workspaces := range []int{1, many} {
		l := wait.New[int, int, int](cmp.Compare)
		for i := range many {
			l.Put(i, fmt.Sprint("w", i%workspaces), time.Unix(int64(i), 0), 0, 1)
		}
		b.Run(fmt.Sprintf("one/tenants=%d", workspaces), func(b *testing.B) {
			for b.Loop() {
				l.Serve(l.On(1).Next().Key)
			}
		})
		b.Run(fmt.Sprintf("all/tenants=%d", workspaces), func(b *testing.B) {
			for b.Loop() {
				r := l.On(1)
				for w := r.Next(); w != nil; w = r.Next() {
					l.Put(w.Key, w.Tenant, w.Since, w.Value, 1)
				}
			}
		})
	}
}
