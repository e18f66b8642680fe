package space

import (
	"cmp"
	"container/heap"

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
}

// enter counts a waiter of a workspace.
func (t *turns) enter(c ledger.ClusterName) {
	if t.waits == nil {
		t.waits = map[ledger.ClusterName]*workspaceTurn{}
	}
	if t.waits[c] == nil {
		t.waits[c] = &workspaceTurn{served: t.now}
	}
	t.waits[c].waiters++
}

// leave ends enter for one waiter. A workspace without waiters is forgotten.
func (t *turns) leave(c ledger.ClusterName) {
	if w := t.waits[c]; w != nil {
		if w.waiters--; w.waiters == 0 {
			delete(t.waits, c)
		}
	}
}

// serve notes that a workspace has had its turn.
func (t *turns) serve(c ledger.ClusterName) {
	t.now++
	t.waits[c].served = t.now
}

// before orders workspaces by their turn; 0 if the age of their claims decides.
func (t *turns) before(a, b ledger.ClusterName) int {
	return cmp.Compare(t.waits[a].served, t.waits[b].served)
}

// line is the waiters for blocks of one length: a heap of lanes, one for each workspace,
// in the order of their turns.
type line struct {
	length    int // of the blocks
	turns     *turns
	lanes     []*waitLane
	byCluster map[ledger.ClusterName]*waitLane
}

// waitLane is the waiters of one workspace in a line, oldest first. It is never empty.
type waitLane struct {
	cluster ledger.ClusterName
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

func newLine(t *turns, length int) *line {
	return &line{length: length, turns: t, byCluster: map[ledger.ClusterName]*waitLane{}}
}

func (l *line) push(w *Waiter) {
	lane := l.byCluster[w.cluster()]
	if lane == nil {
		lane = &waitLane{cluster: w.cluster(), turn: l.turns.waits[w.cluster()], waiters: newByAge(), oldest: w}
		lane.waiters.ReplaceOrInsert(w)
		l.byCluster[lane.cluster] = lane
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
	lane := l.byCluster[w.cluster()]
	switch {
	case lane.waiters.Len() == 1: // while the heap can compare it
		heap.Remove(l, lane.index)
		delete(l.byCluster, lane.cluster)
		return
	case w == lane.oldest: // as when it is served; this needs no comparison
		lane.waiters.DeleteMin()
		lane.oldest, _ = lane.waiters.Min()
	default:
		lane.waiters.Delete(w)
	}
	heap.Fix(l, lane.index)
}

// fix moves a workspace's lane to its place after its turn has changed.
func (l *line) fix(c ledger.ClusterName) {
	if lane := l.byCluster[c]; lane != nil {
		heap.Fix(l, lane.index)
	}
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
}

// Pop implements heap.Interface.
func (l *line) Pop() any {
	last := len(l.lanes) - 1
	lane := l.lanes[last]
	l.lanes[last] = nil
	l.lanes = l.lanes[:last]
	return lane
}
