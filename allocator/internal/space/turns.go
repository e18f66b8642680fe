package space

import (
	"container/heap"
	"slices"

	"github.com/google/btree"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// turns order the workspaces that wait for room in a pool. The one that was served longest ago
// is next, and among those that were not served yet, the one with the oldest claim. So many old
// claims of one workspace do not keep all others waiting. A workspace that begins to wait comes
// after all that have waited longer for their turn. The zero value is empty.
type turns struct {
	now   uint64
	waits map[ledger.ClusterName]*workspaceTurn
}

// workspaceTurn is the place of a workspace in the order.
type workspaceTurn struct {
	served  uint64 // when it was served last, or began to wait
	waiters int
	lanes   []*waitLane // of the workspace, one in each line that has waiters of it
}

// enter counts a waiter of a workspace, and returns the place of the workspace.
func (t *turns) enter(c ledger.ClusterName) *workspaceTurn {
	if t.waits == nil {
		t.waits = map[ledger.ClusterName]*workspaceTurn{}
	}
	w := t.waits[c]
	if w == nil {
		w = &workspaceTurn{served: t.now}
		t.waits[c] = w
	}
	w.waiters++
	return w
}

// leave ends enter for one waiter. A workspace without waiters is forgotten.
func (t *turns) leave(c ledger.ClusterName) {
	if w := t.waits[c]; w != nil {
		if w.waiters--; w.waiters == 0 {
			delete(t.waits, c)
		}
	}
}

// serve notes that a workspace has had its turn. Its lanes have to be put in their places for that;
// see fix.
func (t *turns) serve(w *workspaceTurn) {
	t.now++
	w.served = t.now
}

// fix puts the lanes of a workspace in their places after its turn has changed.
func (t *workspaceTurn) fix() {
	for _, lane := range t.lanes {
		heap.Fix(lane.line, lane.index)
	}
}

// lane is the workspace's lane of a line; nil: it has none.
func (t *workspaceTurn) lane(of *line) *waitLane {
	for _, lane := range t.lanes {
		if lane.line == of {
			return lane
		}
	}
	return nil
}

// line is the waiters for blocks of one length: a heap of lanes, one for each workspace,
// in the order of their turns.
type line struct {
	length int // of the blocks
	lanes  []*waitLane
}

// waitLane is the waiters of one workspace in a line, oldest first. It is never empty.
type waitLane struct {
	line    *line
	turn    *workspaceTurn // of the workspace
	waiters *byAge
	oldest  *Waiter
	index   int // in the line
}

// byAge is some waiters, oldest first.
type byAge = btree.BTreeG[*Waiter]

// nodes are shared by all trees of waiters: most lanes have so few that lists of their own would
// be larger than they are.
var nodes = btree.NewFreeListG[*Waiter](btree.DefaultFreeListSize)

func newByAge() *byAge {
	return btree.NewWithFreeListG(32, func(a, b *Waiter) bool { return older(a, b) < 0 }, nodes)
}

func (l *line) push(w *Waiter) {
	lane := w.turn.lane(l)
	if lane == nil {
		lane = &waitLane{line: l, turn: w.turn, waiters: newByAge(), oldest: w}
		lane.waiters.ReplaceOrInsert(w)
		heap.Push(l, lane)
		return
	}
	lane.waiters.ReplaceOrInsert(w)
	if older(w, lane.oldest) < 0 {
		lane.oldest = w
		heap.Fix(l, lane.index)
	}
}

// remove removes a waiter, and puts its workspace's lane in its place.
func (l *line) remove(w *Waiter) {
	lane := w.turn.lane(l)
	switch {
	case lane.waiters.Len() == 1: // while the heap can compare it
		heap.Remove(l, lane.index)
		return
	case w == lane.oldest: // as when it is served; this needs no comparison
		lane.waiters.DeleteMin()
		lane.oldest, _ = lane.waiters.Min()
	default:
		lane.waiters.Delete(w)
	}
	heap.Fix(l, lane.index)
}

// first is the next waiter. There must be one.
func (l *line) first() *Waiter { return l.lanes[0].oldest }

// Len implements heap.Interface.
func (l *line) Len() int { return len(l.lanes) }

// Less implements heap.Interface.
func (l *line) Less(i, j int) bool {
	a, b := l.lanes[i], l.lanes[j]
	if a.turn.served != b.turn.served {
		return a.turn.served < b.turn.served
	}
	return older(a.oldest, b.oldest) < 0
}

// Swap implements heap.Interface.
func (l *line) Swap(i, j int) {
	l.lanes[i], l.lanes[j] = l.lanes[j], l.lanes[i]
	l.lanes[i].index, l.lanes[j].index = i, j
}

// Push implements heap.Interface.
func (l *line) Push(x any) {
	lane := x.(*waitLane)
	lane.index = len(l.lanes)
	l.lanes = append(l.lanes, lane)
	lane.turn.lanes = append(lane.turn.lanes, lane)
}

// Pop implements heap.Interface.
func (l *line) Pop() any {
	last := len(l.lanes) - 1
	lane := l.lanes[last]
	l.lanes[last] = nil
	l.lanes = l.lanes[:last]
	lane.turn.lanes = slices.DeleteFunc(lane.turn.lanes, func(other *waitLane) bool { return other == lane })
	return lane
}
