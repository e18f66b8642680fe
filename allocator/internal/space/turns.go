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
	turns     *turns
	lanes     []*waitLane
	byCluster map[ledger.ClusterName]*waitLane
}

// waitLane is the waiters of one workspace in a line, oldest first. It is never empty.
type waitLane struct {
	cluster ledger.ClusterName
	waiters *btree.BTreeG[*Waiter]
	index   int // in the line
}

func (l *waitLane) first() *Waiter {
	w, _ := l.waiters.Min()
	return w
}

func newLine(t *turns) *line { return &line{turns: t, byCluster: map[ledger.ClusterName]*waitLane{}} }

func (l *line) push(w *Waiter) {
	lane := l.byCluster[w.cluster()]
	if lane == nil {
		lane = &waitLane{cluster: w.cluster(), waiters: btree.NewG(32, func(a, b *Waiter) bool { return older(a, b) < 0 })}
		lane.waiters.ReplaceOrInsert(w)
		l.byCluster[lane.cluster] = lane
		heap.Push(l, lane)
		return
	}
	lane.waiters.ReplaceOrInsert(w)
	heap.Fix(l, lane.index)
}

func (l *line) remove(w *Waiter) {
	lane := l.byCluster[w.cluster()]
	if lane.waiters.Len() == 1 { // while the heap can compare it
		heap.Remove(l, lane.index)
		delete(l.byCluster, lane.cluster)
		return
	}
	lane.waiters.Delete(w)
	heap.Fix(l, lane.index)
}

// fix moves a workspace's lane to its place after its turn has changed.
func (l *line) fix(c ledger.ClusterName) {
	if lane := l.byCluster[c]; lane != nil {
		heap.Fix(l, lane.index)
	}
}

// first is the next waiter. There must be one.
func (l *line) first() *Waiter { return l.lanes[0].first() }

// Len implements heap.Interface.
func (l *line) Len() int { return len(l.lanes) }

// Less implements heap.Interface.
func (l *line) Less(i, j int) bool {
	a, b := l.lanes[i], l.lanes[j]
	return cmp.Or(l.turns.before(a.cluster, b.cluster), older(a.first(), b.first())) < 0
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
