package inbox

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// turns is the storage of a workqueue in which workspaces take turns: one with many
// items delays the others by one each, not by all of them. It is what the ledger does with
// the calls that wait for a pool, and what API Priority and Fairness (KEP-1040) does with
// flows. A workqueue calls it from one goroutine at a time.
type turns[T comparable] struct {
	of    func(T) ledger.ClusterName // whose item it is
	lanes map[ledger.ClusterName][]T
	next  []ledger.ClusterName // those with a lane
	size  int
}

// NewTurns makes the storage of a workqueue in which workspaces take turns.
func NewTurns() workqueue.Queue[mcreconcile.Request] { return newTurns(clusterOf) }

func clusterOf(r mcreconcile.Request) ledger.ClusterName { return ledger.ClusterName(r.ClusterName) }

func newTurns[T comparable](of func(T) ledger.ClusterName) *turns[T] {
	return &turns[T]{of: of, lanes: map[ledger.ClusterName][]T{}}
}

// Touch leaves an item that is added again in its place.
func (*turns[T]) Touch(T) {}

// Push puts an item behind those of its workspace.
func (t *turns[T]) Push(item T) {
	whose := t.of(item)
	lane, ok := t.lanes[whose]
	if !ok {
		t.next = append(t.next, whose)
	}
	t.lanes[whose] = append(lane, item)
	t.size++
}

// Len is how many items there are.
func (t *turns[T]) Len() int { return t.size }

// Pop takes the first item of the workspace whose turn it is. There must be one.
func (t *turns[T]) Pop() T {
	whose := t.next[0]
	t.next = t.next[1:]
	lane := t.lanes[whose]
	item := lane[0]
	lane[0] = *new(T) // the array may live on
	if lane = lane[1:]; len(lane) > 0 {
		t.lanes[whose] = lane
		t.next = append(t.next, whose)
	} else {
		delete(t.lanes, whose)
	}
	t.size--
	return item
}

// listedShare is how many items are taken before one is taken of those that were listed.
const listedShare = 8

// listed is the storage of a workqueue in which what a first list shows comes behind what happens.
// After a start that is everything in the cache: a new claim would wait until each of the others is
// reconciled. A listed item still gets every eighth turn.
type listed struct {
	now   *turns[mcreconcile.Request]
	later *turns[mcreconcile.Request]
	taken int

	mu     sync.Mutex
	marked map[mcreconcile.Request]bool // to be added to later
}

func newListed() *listed {
	return &listed{now: newTurns(clusterOf), later: newTurns(clusterOf), marked: map[mcreconcile.Request]bool{}}
}

// mark has the next Push of an item add it to those that were listed.
func (l *listed) mark(item mcreconcile.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marked[item] = true
}

// unmark reports whether an item was marked, and is not any more.
func (l *listed) unmark(item mcreconcile.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	marked := l.marked[item]
	delete(l.marked, item)
	return marked
}

// Touch leaves an item that is added again in its place.
func (l *listed) Touch(item mcreconcile.Request) { l.unmark(item) }

// Push puts an item behind those of its workspace.
func (l *listed) Push(item mcreconcile.Request) {
	if l.unmark(item) {
		l.later.Push(item)
		return
	}
	l.now.Push(item)
}

// Len is how many items there are.
func (l *listed) Len() int { return l.now.Len() + l.later.Len() }

// Pop takes the first item of the workspace whose turn it is. There must be one.
func (l *listed) Pop() mcreconcile.Request {
	l.taken++
	if l.now.Len() == 0 || l.later.Len() > 0 && l.taken%listedShare == 0 {
		return l.later.Pop()
	}
	return l.now.Pop()
}
