package space

import (
	"cmp"
	"container/heap"
	"net/netip"
	"slices"
	"time"

	"github.com/google/btree"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Waiter is a claim that waits. Either it is in a line, or it has a hold, or it is suspended: a limit
// stops it until its workspace holds less.
type Waiter struct {
	request   ledger.Request
	turn      *workspaceTurn // of its workspace
	since     time.Time
	held      bool
	suspended Account      // whose limit stops it; the zero Account: it is not suspended
	Last      netip.Prefix // of its hold, or the last one
	clock     *clock       // of the hold
}

func (w *Waiter) cluster() ledger.ClusterName { return w.request.Holder.Tenant() }

// asks reports whether a request is the one that waits.
func (w *Waiter) asks(req ledger.Request) bool {
	return w.request.Exact == req.Exact && (req.Exact.IsValid() || w.request.Length == req.Length)
}

func older(a, b *Waiter) int {
	if by := a.since.Compare(b.since); by != 0 {
		return by
	}
	return cmp.Compare(a.request.Holder.Claim, b.request.Holder.Claim)
}

// before orders waiters as they are served.
func before(a, b *Waiter) int {
	if by := cmp.Compare(a.turn.served, b.turn.served); by != 0 {
		return by
	}
	return older(a, b)
}

// clock ends the holds that were made while the lock of the space was held once. Room for very many
// claims may appear at once, and a clock for each would cost as much as all else of waking them.
// The space's lock guards it.
type clock struct {
	waiters []*Waiter // that were held for, in order
	held    int       // how many of them still are
	stop    func() bool
}

// release ends that room is held for a waiter.
func (w *Waiter) release() {
	c := w.clock
	w.held, w.clock = false, nil
	if c.held--; c.held == 0 {
		c.stop()
	}
}

// kind groups the waiters of a workspace at a pool that one limit stops alike.
type kind struct {
	class  string
	length int
	exact  bool // each needs room of its own
}

func kindOf(r ledger.Request) kind {
	if r.Exact.IsValid() {
		return kind{r.Class, r.Exact.Bits(), true}
	}
	return kind{r.Class, r.Length, false}
}

// workspaceTurn is the place of a workspace in the order.
type workspaceTurn struct {
	served  uint64 // when it was served last, or began to wait
	waiters int
	lanes   []*waitLane // of the workspace, one in each line that has waiters of it
	wishes  *byAge      // for exact prefixes, without a hold; nil: there was none yet
}

// wish adds a waiter for an exact prefix.
func (t *workspaceTurn) wish(w *Waiter) {
	if t.wishes == nil {
		t.wishes = newByAge()
	}
	t.wishes.ReplaceOrInsert(w)
}

// mostPreferred is how many waiters of a workspace for exact prefixes come before those that take any block, at one
// pool. A bound keeps very many of them from taking all that becomes free. The youngest count: a user who moves an
// address to another claim makes that claim just before, and may have claims for other addresses that wait in vain for
// long.
const mostPreferred = 16

// preferred returns the oldest that fits, of the youngest waiters for exact prefixes; nil: there is none.
func preferred(wishes *byAge, fits func(*Waiter) bool) (first *Waiter) {
	if wishes == nil {
		return nil
	}
	left := mostPreferred
	wishes.Descend(func(w *Waiter) bool {
		if left--; fits(w) {
			first = w
		}
		return left > 0
	})
	return first
}

// fix puts the lanes of a workspace in their places after its turn has changed.
func (t *workspaceTurn) fix() {
	for _, lane := range t.lanes {
		heap.Fix(lane.line, lane.index)
	}
}

// lane returns the workspace's lane of a line; nil: it has none.
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

// first returns the next waiter. There must be one.
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
