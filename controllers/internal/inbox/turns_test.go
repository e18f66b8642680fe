package inbox

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// A workspace that has much waiting delays the others by one each.
func TestQueue_WorkspacesTakeTurns(t *testing.T) {
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
