package inbox

import (
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
)

// The oldest comes first, among those of one second the first by workspace, namespace and
// name. One that is listed twice comes once.
func TestOldestFirst(t *testing.T) {
	t.Parallel()
	old := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	want := []Waiter{
		{Request("z", client.ObjectKey{Namespace: "z", Name: "z"}), old},
		{Request("a", client.ObjectKey{Namespace: "a", Name: "b"}), old.Add(time.Second)},
		{Request("a", client.ObjectKey{Namespace: "b", Name: "a"}), old.Add(time.Second)},
		{Request("a", client.ObjectKey{Namespace: "b", Name: "b"}), old.Add(time.Second)},
		{Request("b", client.ObjectKey{Namespace: "a", Name: "a"}), old.Add(time.Second)},
	}
	shuffled := []Waiter{want[3], want[1], want[0], want[4], want[1], want[2], want[3]}
	got := OldestFirst(shuffled)
	if !slices.EqualFunc(want, got, func(w Waiter, r mcreconcile.Request) bool { return w.Request == r }) {
		t.Errorf("OldestFirst = %v\nwant %v", got, want)
	}
}
