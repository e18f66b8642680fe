package space

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// waitlist is the claims that wait for room in one pool. Room that becomes free is held for
// the next claim that fits, so a new claim finds only room that no waiting one could use.
// Workspaces take turns, and within one the oldest claim is first; see turns. The zero value
// is empty. The space's lock guards it.
type waitlist struct {
	Claims    map[ledger.ClaimID]*Waiter
	names     map[former]*Waiter // by the name of the claim
	turns     *turns
	lines     map[int]*line         // by prefix length, those without a hold
	exact     []*Waiter             // by prefix, then by age, those without a hold
	suspended map[Account][]*Waiter // by the account whose limit stops them, oldest first; in no line
	Suspended int                   // how many are suspended
}

// Waiter is a claim that waits. Either it is in a line, or it has a hold, or it is suspended: a limit
// stops it until its workspace holds less.
type Waiter struct {
	request   ledger.Request
	since     time.Time
	held      bool
	suspended Account      // whose limit stops it; the zero Account: it is not suspended
	Last      netip.Prefix // of its hold, or the last one
	stop      func() bool  // stops the timer of the hold
	turn      int          // counts its holds
}

func (w *Waiter) cluster() ledger.ClusterName { return w.request.Holder.Cluster }

func older(a, b *Waiter) int {
	return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.request.Holder.Claim, b.request.Holder.Claim))
}

// add puts a waiter on the list, and into its line.
func (q *waitlist) add(w *Waiter) {
	if q.Claims == nil {
		*q = waitlist{
			Claims: map[ledger.ClaimID]*Waiter{}, names: map[former]*Waiter{}, lines: map[int]*line{}, turns: &turns{}, suspended: map[Account][]*Waiter{},
		}
	}
	q.Claims[w.request.Holder.Claim] = w
	q.names[formerOf(w.request.Holder)] = w
	q.turns.enter(w.cluster())
	q.enqueue(w)
}

// remove takes a waiter off the list.
func (q *waitlist) remove(w *Waiter) {
	q.leave(w)
	delete(q.Claims, w.request.Holder.Claim)
	if name := formerOf(w.request.Holder); q.names[name] == w {
		delete(q.names, name)
	}
	q.turns.leave(w.cluster())
}

// before orders waiters as they are served.
func (q *waitlist) before(a, b *Waiter) int {
	return cmp.Or(q.turns.before(a.cluster(), b.cluster()), older(a, b))
}

// requeue puts a waiter that has a hold, or is suspended, back into its line.
func (q *waitlist) requeue(w *Waiter) {
	q.leave(w)
	q.enqueue(w)
}

func (q *waitlist) enqueue(w *Waiter) {
	if w.request.Exact.IsValid() {
		q.exact = insert(q.exact, w, byPrefix)
		return
	}
	l := q.lines[w.request.Length]
	if l == nil {
		l = newLine(q.turns)
		q.lines[w.request.Length] = l
	}
	l.push(w)
}

// suspend removes a waiter from its line until less is held on an account.
func (q *waitlist) suspend(w *Waiter, on Account) {
	q.leave(w)
	w.suspended = on
	q.Suspended++
	q.suspended[on] = insert(q.suspended[on], w, older)
}

// hold notes that a prefix is held for a waiter in a line: its workspace has had its turn.
func (q *waitlist) hold(w *Waiter, prefix netip.Prefix) {
	q.leave(w)
	w.held, w.Last = true, prefix
	w.turn++
	q.turns.serve(w.cluster())
	for _, l := range q.lines {
		l.fix(w.cluster())
	}
}

// leave removes a waiter from its line, or ends its hold or its suspension. The caller puts it
// somewhere else, or off the list.
func (q *waitlist) leave(w *Waiter) {
	switch {
	case w.held:
		w.held = false
		w.stop()
	case w.suspended != (Account{}):
		q.Suspended--
		if rest := remove(q.suspended[w.suspended], w, older); len(rest) > 0 {
			q.suspended[w.suspended] = rest
		} else {
			delete(q.suspended, w.suspended)
		}
		w.suspended = Account{}
	case w.request.Exact.IsValid():
		q.exact = remove(q.exact, w, byPrefix)
	default:
		l := q.lines[w.request.Length]
		if l.remove(w); len(l.lanes) == 0 {
			delete(q.lines, w.request.Length)
		}
	}
}

func insert(list []*Waiter, w *Waiter, order func(a, b *Waiter) int) []*Waiter {
	i, _ := slices.BinarySearchFunc(list, w, order)
	return slices.Insert(list, i, w)
}

func remove(list []*Waiter, w *Waiter, order func(a, b *Waiter) int) []*Waiter {
	if list[0] == w { // the oldest, as a rule: the others need not move
		list[0] = nil
		return list[1:]
	}
	i, _ := slices.BinarySearchFunc(list, w, order)
	return slices.Delete(list, i, i+1)
}

// next is the next waiter that a free block of the given length would serve; nil: none.
func (q *waitlist) next(largest int) *Waiter {
	var first *Waiter
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
func (q *waitlist) touching(p netip.Prefix) *line {
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

func (q *waitlist) search(p netip.Prefix) int {
	i, _ := slices.BinarySearchFunc(q.exact, p, func(w *Waiter, p netip.Prefix) int {
		return ledger.ComparePrefixes(w.request.Exact, p)
	})
	return i
}

func byPrefix(a, b *Waiter) int {
	return cmp.Or(ledger.ComparePrefixes(a.request.Exact, b.request.Exact), older(a, b))
}
