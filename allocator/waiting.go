package allocator

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// waiting is the list of the claims that wait for room in one pool. Whenever room appears
// it is held for the one whose turn it is among those that fit, so a newcomer finds only
// what none of them could have had. Workspaces take turns, and within one the oldest claim
// is first; see turns. The zero value is empty. The space's lock guards it.
type waiting struct {
	claims map[ClaimID]*waiter
	names  map[former]*waiter // by the name of the claim
	turns  *turns
	lines  map[int]*line         // by prefix length, those without a hold
	exact  []*waiter             // by prefix, then by age, those without a hold
	parked map[account][]*waiter // oldest first; they are in no line
	idle   int                   // how many are parked
}

// waiter is a claim that waits. It is in a line, in exact, held for, or parked: its
// workspace has to hold less before it may take room from others.
type waiter struct {
	request Request
	since   time.Time
	held    bool
	parked  account      // for less to be held on it; the zero account: it is not parked
	last    netip.Prefix // what is or was held for it
	stop    func() bool  // the clock of the hold
	turn    int          // counts its holds
	index   int          // in its lane
}

func (w *waiter) cluster() ClusterName { return w.request.Holder.Cluster }

func older(a, b *waiter) int {
	return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.request.Holder.Claim, b.request.Holder.Claim))
}

// enter puts a waiter on the list. The caller puts it into its line, or parks it.
func (q *waiting) enter(w *waiter) {
	if q.claims == nil {
		q.claims, q.names, q.lines, q.turns = map[ClaimID]*waiter{}, map[former]*waiter{}, map[int]*line{}, &turns{}
	}
	q.claims[w.request.Holder.Claim] = w
	q.names[formerOf(w.request.Holder)] = w
	q.turns.enter(w.cluster())
}

// remove takes a waiter off the list that is in no line, or has a hold.
func (q *waiting) remove(w *waiter) {
	delete(q.claims, w.request.Holder.Claim)
	if name := formerOf(w.request.Holder); q.names[name] == w {
		delete(q.names, name)
	}
	q.turns.leave(w.cluster())
}

// serve notes that room is held for a waiter: its workspace has had its turn.
func (q *waiting) serve(w *waiter) {
	q.turns.serve(w.cluster())
	for _, l := range q.lines {
		l.fix(w.cluster())
	}
}

// before orders waiters as they are served.
func (q *waiting) before(a, b *waiter) int {
	return cmp.Or(q.turns.before(a.cluster(), b.cluster()), older(a, b))
}

// park has a waiter wait for less to be held on an account.
func (q *waiting) park(w *waiter, on account) {
	if q.parked == nil {
		q.parked = map[account][]*waiter{}
	}
	w.parked = on
	q.idle++
	i, _ := slices.BinarySearchFunc(q.parked[on], w, older)
	q.parked[on] = slices.Insert(q.parked[on], i, w)
}

// unpark ends that. The caller puts the waiter into its line, or lets it go.
func (q *waiting) unpark(w *waiter) {
	q.idle--
	i, _ := slices.BinarySearchFunc(q.parked[w.parked], w, older)
	q.parked[w.parked] = slices.Delete(q.parked[w.parked], i, i+1)
	if len(q.parked[w.parked]) == 0 {
		delete(q.parked, w.parked)
	}
	w.parked = account{}
}

func (q *waiting) line(w *waiter) {
	if w.request.Exact.IsValid() {
		i, _ := slices.BinarySearchFunc(q.exact, w, byPrefix)
		q.exact = slices.Insert(q.exact, i, w)
		return
	}
	l := q.lines[w.request.Length]
	if l == nil {
		l = newLine(q.turns)
		q.lines[w.request.Length] = l
	}
	l.push(w)
}

// step takes a waiter out of its line, to hold room for it or to let it go.
func (q *waiting) step(w *waiter) {
	if w.held {
		return
	}
	if w.parked != (account{}) {
		q.unpark(w)
		return
	}
	if w.request.Exact.IsValid() {
		i, _ := slices.BinarySearchFunc(q.exact, w, byPrefix)
		q.exact = slices.Delete(q.exact, i, i+1)
		return
	}
	l := q.lines[w.request.Length]
	if l.remove(w); len(l.lanes) == 0 {
		delete(q.lines, w.request.Length)
	}
}

// next is the waiter whose turn it is among those that a free block of the given length
// would serve.
func (q *waiting) next(largest int) *waiter {
	var first *waiter
	for length, l := range q.lines {
		if length < largest {
			continue
		}
		if w := l.first(); first == nil || q.before(w, first) < 0 {
			first = w
		}
	}
	return first
}

// touching returns the waiters for an exact prefix that overlaps p, in a line of their own.
func (q *waiting) touching(p netip.Prefix) *line {
	found := newLine(q.turns)
	for bits := range p.Bits() {
		cover := netip.PrefixFrom(p.Addr(), bits).Masked()
		for i := q.search(cover); i < len(q.exact) && q.exact[i].request.Exact == cover; i++ {
			found.push(q.exact[i])
		}
	}
	for i := q.search(p); i < len(q.exact) && p.Contains(q.exact[i].request.Exact.Addr()); i++ {
		found.push(q.exact[i])
	}
	return found
}

func (q *waiting) search(p netip.Prefix) int {
	i, _ := slices.BinarySearchFunc(q.exact, p, func(w *waiter, p netip.Prefix) int {
		return ledger.ComparePrefixes(w.request.Exact, p)
	})
	return i
}

func byPrefix(a, b *waiter) int {
	return cmp.Or(ledger.ComparePrefixes(a.request.Exact, b.request.Exact), older(a, b))
}
