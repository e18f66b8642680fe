package allocator

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	"golang.org/x/sync/errgroup"
)

func given(cluster ledger.ClusterName) ledger.Slice {
	return ledger.Slice{Pool: "p", Cluster: cluster, Binding: "b", State: ledger.SliceGiven, Since: time.Unix(1, 0).UTC()}
}

func (l *fixture) putSlice(s ledger.Slice, limit int, want error) {
	l.t.Helper()
	if err := l.Slices().Put(l.t.Context(), s, limit); !errors.Is(err, want) {
		l.t.Fatalf("slice of %s, at most %d: %v; want %v", s.Cluster, limit, err, want)
	}
}

func TestSlices_CountAgainstTheLimit(t *testing.T) {
	l := newLedger(t)
	first, second := given("a"), given("b")
	l.putSlice(first, 1, nil)
	l.putSlice(second, 1, ErrSlicesGiven)
	second.State = ledger.SliceWaiting
	l.putSlice(second, 1, nil)

	first.Child = "child"
	l.putSlice(first, 1, nil) // it has one already
	got, ok, err := l.Slices().Get(t.Context(), "p", "a")
	if diff := cmp.Diff(first, got); err != nil || !ok || diff != "" {
		t.Errorf("Slice = %v, %v, (-want +got) %s", ok, err, diff)
	}
	first.State, second.State = ledger.SliceDeclined, ledger.SliceGiven
	l.putSlice(second, 1, ErrSlicesGiven)
	l.putSlice(first, 1, nil)
	l.putSlice(second, 1, nil)
	list, err := l.Slices().List(t.Context(), "p")
	if diff := cmp.Diff([]ledger.Slice{first, second}, list); err != nil || diff != "" {
		t.Errorf("Slices = %v, (-want +got) %s", err, diff)
	}

	// If the limit falls below the number of given slices, these stay, and no more are given.
	l.putSlice(given("c"), 0, nil)
	second.Child = "child"
	l.putSlice(second, 1, nil)
	must.Do(t, errors.Join(l.Slices().Drop(t.Context(), "p", "c"), l.Slices().Drop(t.Context(), "p", "none")))
	l.putSlice(given("c"), 1, ErrSlicesGiven)
	l.putSlice(given("c"), 2, nil)
	must.Do(t, l.Slices().DropAll(t.Context(), "p"))
	l.putSlice(given("d"), 1, nil)
	l.putSlice(ledger.Slice{Pool: "p", Cluster: "a/b"}, 0, ledger.ErrInvalid)
}

// However many callers give slices at once, no more are given than the limit allows.
func TestSlices_GiveNoMoreThanTheLimit(t *testing.T) {
	l := newLedger(t)
	var group errgroup.Group
	refused := make([]bool, 12)
	for i := range refused {
		group.Go(func() error {
			err := l.Slices().Put(t.Context(), given(ledger.ClusterName(fmt.Sprint("w", i))), 5)
			refused[i] = errors.Is(err, ErrSlicesGiven)
			if refused[i] {
				return nil
			}
			return err
		})
	}
	must.Do(t, group.Wait())
	list, err := l.Slices().List(t.Context(), "p")
	if n := len(slices.DeleteFunc(refused, func(r bool) bool { return r })); err != nil || len(list) != 5 || n != 5 {
		t.Errorf("%d were given a slice, and %d are in the ledger; want 5 (%v)", n, len(list), err)
	}
}
