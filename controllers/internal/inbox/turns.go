package inbox

import (
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
)

// turns is the storage of a workqueue in which workspaces take turns: one with many
// items delays the others by one each, not by all of them. It is what the ledger does with
// the calls that wait for a pool, and what API Priority and Fairness (KEP-1040) does with
// flows. A workqueue calls it from one goroutine at a time.
type turns struct {
	lanes map[multicluster.ClusterName][]mcreconcile.Request
	next  []multicluster.ClusterName // those with a lane
	size  int
}

// NewTurns makes the storage of a workqueue in which workspaces take turns.
func NewTurns() workqueue.Queue[mcreconcile.Request] { return newTurns() }

func newTurns() *turns {
	return &turns{lanes: map[multicluster.ClusterName][]mcreconcile.Request{}}
}

// Touch leaves an item that is added again in its place.
func (*turns) Touch(mcreconcile.Request) {}

// Push puts an item behind those of its workspace.
func (t *turns) Push(item mcreconcile.Request) {
	lane, ok := t.lanes[item.ClusterName]
	if !ok {
		t.next = append(t.next, item.ClusterName)
	}
	t.lanes[item.ClusterName] = append(lane, item)
	t.size++
}

// Len is how many items there are.
func (t *turns) Len() int { return t.size }

// Pop takes the first item of the workspace whose turn it is. There must be one.
func (t *turns) Pop() mcreconcile.Request {
	whose := t.next[0]
	t.next = t.next[1:]
	lane := t.lanes[whose]
	item := lane[0]
	lane[0] = mcreconcile.Request{} // the array may live on
	if lane = lane[1:]; len(lane) > 0 {
		t.lanes[whose] = lane
		t.next = append(t.next, whose)
	} else {
		delete(t.lanes, whose)
	}
	t.size--
	return item
}
