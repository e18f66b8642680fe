package inbox

import (
	"sync"

	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
)

// listedShare is how many items are taken before one is taken of those that were listed.
const listedShare = 8

// listed is the storage of a workqueue in which what a first list shows comes behind what happens.
// After a start that is everything in the cache: a new claim would wait until each of the others is
// reconciled. A listed item still gets every eighth turn.
type listed struct {
	now   *turns
	later *turns
	taken int

	mu     sync.Mutex
	marked map[mcreconcile.Request]bool // to be added to later
}

func newListed() *listed {
	return &listed{now: newTurns(), later: newTurns(), marked: map[mcreconcile.Request]bool{}}
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
