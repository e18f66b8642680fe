package inbox

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// A workspace with many waiting items delays the others by one item each.
func TestQueue_LetsWorkspacesTakeTurns(t *testing.T) {
	t.Parallel()
	queue := NewQueue("test")
	defer queue.ShutDown()
	add := func(cluster multicluster.ClusterName, n int) {
		for i := range n {
			queue.Add(Request(cluster, client.ObjectKey{Name: fmt.Sprint(i)}))
		}
	}
	var order []string
	take := func(n int) {
		for range n {
			item, _ := queue.Get()
			order = append(order, string(item.ClusterName)+item.Name)
			queue.Done(item)
		}
	}
	add("storm-", 5)
	add("calm-", 2)
	take(3)
	add("late-", 1)
	add("storm-", 5) // three of them wait already, and keep their places
	take(7)
	const want = "storm-0 calm-0 storm-1 calm-1 storm-2 late-0 storm-3 storm-4 storm-0 storm-1"
	if got := strings.Join(order, " "); got != want || queue.Len() != 0 {
		t.Errorf("the order is %s, and %d wait\nwant %s", got, queue.Len(), want)
	}
}

// A changed claim does not wait for the claims that the first list has shown, not even for those of its own workspace.
// The listed claims do not wait for ever.
func TestInbox_LetsListedClaimsComeLater(t *testing.T) {
	t.Parallel()
	i := newInbox(t)
	const many = 100
	for n := range many {
		i.Listed(Request("w", client.ObjectKey{Name: fmt.Sprint("listed-", n)}))
	}
	fresh := Request("w", client.ObjectKey{Name: "fresh"})
	i.Claims.Add(fresh)
	got, _ := i.Claims.Get()
	if got != fresh {
		t.Errorf("the first is %v, want the claim that was made since", got)
	}
	i.Claims.Done(got)

	listed := 0
	for n := range listedShare {
		i.Claims.Add(Request("w", client.ObjectKey{Name: fmt.Sprint("fresh-", n)}))
	}
	for range listedShare {
		item, _ := i.Claims.Get()
		if item.Name == fmt.Sprint("listed-", listed) {
			listed++
		}
		i.Claims.Done(item)
	}
	if listed != 1 {
		t.Errorf("of %d items %d were listed, want 1, in their order", listedShare, listed)
	}
	if got, want := i.Claims.Len(), many; got != want {
		t.Errorf("%d wait, want %d", got, want)
	}
}

// A claim that waits already keeps its place when it is listed. That it was listed does not matter any more when it is
// added again later.
func TestInbox_KeepsThePlaceOfAListedClaimThatWaits(t *testing.T) {
	t.Parallel()
	i := newInbox(t)
	a, b := Request("w", client.ObjectKey{Name: "a"}), Request("w", client.ObjectKey{Name: "b"})
	i.Claims.Add(a)
	i.Claims.Add(b)
	i.Listed(a)
	for _, want := range []string{"a", "b"} {
		item, _ := i.Claims.Get()
		if item.Name != want {
			t.Errorf("%s is taken, want %s", item.Name, want)
		}
		i.Claims.Done(item)
	}
	i.Listed(b)
	i.Claims.Add(a)
	if item, _ := i.Claims.Get(); item != a {
		t.Errorf("%s is taken, want a: that it was listed once is over", item.Name)
	}
}
