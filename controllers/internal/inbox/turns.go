package inbox

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// turns is the storage of a workqueue in which workspaces take turns: a workspace with many items delays the others by
// one item each, not by all of its items. The ledger does the same with the calls that wait for a transaction, and API
// Priority and Fairness (KEP-1040) with flows. A workqueue calls it from one goroutine at a time.
type turns[T comparable] struct {
	of    func(T) ledger.ClusterName // returns the workspace of an item
	lanes map[ledger.ClusterName][]T
	next  []ledger.ClusterName // workspaces with a lane, in turn
	size  int
}

// NewTurns makes the storage of a workqueue in which workspaces take turns.
func NewTurns() workqueue.Queue[mcreconcile.Request] { return newTurns(clusterOf) }

func clusterOf(r mcreconcile.Request) ledger.ClusterName { return ledger.ClusterName(r.ClusterName) }

func newTurns[T comparable](of func(T) ledger.ClusterName) *turns[T] {
	return &turns[T]{of: of, lanes: map[ledger.ClusterName][]T{}}
}

// Touch does nothing: an item that is added again keeps its place.
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

// Len returns the number of items.
func (t *turns[T]) Len() int { return t.size }

// Pop takes the first item of the workspace whose turn it is. The storage must not be empty.
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

// listedShare says which share of the turns goes to listed items while other items wait: one turn in listedShare.
const listedShare = 8

// listed is the storage of a workqueue in which items of a first list come after other items. After a start, the first
// list has everything in the cache. Without that order, a new claim would wait until all of it is reconciled. A listed
// item still gets every eighth turn.
type listed struct {
	now   *turns[mcreconcile.Request]
	later *turns[mcreconcile.Request]
	taken int

	mu     sync.Mutex
	marked map[mcreconcile.Request]bool // items that the next Push adds to the field later
}

func newListed() *listed {
	return &listed{now: newTurns(clusterOf), later: newTurns(clusterOf), marked: map[mcreconcile.Request]bool{}}
}

// mark makes the next Push of an item add it to the listed items.
func (l *listed) mark(item mcreconcile.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marked[item] = true
}

// unmark removes the mark of an item, and reports whether it had one.
func (l *listed) unmark(item mcreconcile.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	marked := l.marked[item]
	delete(l.marked, item)
	return marked
}

// Touch removes the mark of an item that is added again. The item keeps its place.
func (l *listed) Touch(item mcreconcile.Request) { l.unmark(item) }

// Push puts an item behind those of its workspace.
func (l *listed) Push(item mcreconcile.Request) {
	if l.unmark(item) {
		l.later.Push(item)
		return
	}
	l.now.Push(item)
}

// Len returns the number of items.
func (l *listed) Len() int { return l.now.Len() + l.later.Len() }

// Pop takes the first item of the workspace whose turn it is. The storage must not be empty.
func (l *listed) Pop() mcreconcile.Request {
	l.taken++
	if l.now.Len() == 0 || l.later.Len() > 0 && l.taken%listedShare == 0 {
		return l.later.Pop()
	}
	return l.now.Pop()
}
