package space

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// waitlist is the claims that wait for room in one pool. Room that becomes free is held for
// the next claim that fits, so a new claim finds only room that no waiting one could use.
// Workspaces take turns; see turns. Within one, a claim for exactly what became free is first; see
// preferred. Else the oldest claim is. The zero value is empty. The space's lock guards it.
type waitlist struct {
	Claims    map[ledger.ClaimID]*Waiter
	names     map[former]*Waiter // by the name of the claim
	turns     *turns
	lines     []*line                     // by prefix length, those without a hold; none is empty
	exact     *exact                      // those for an exact prefix, without a hold
	suspended map[Account]map[kind]*byAge // by the account whose limit stops them; in no line, and none is empty
}

// add puts a waiter on the list, and into its line.
func (q *waitlist) add(w *Waiter) {
	if q.Claims == nil {
		*q = waitlist{
			Claims: map[ledger.ClaimID]*Waiter{}, names: map[former]*Waiter{}, turns: &turns{}, exact: newExact(), suspended: map[Account]map[kind]*byAge{},
		}
	}
	q.Claims[w.request.Holder.Claim] = w
	q.names[formerOf(w.request.Holder)] = w
	w.turn = q.turns.enter(w.cluster())
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

// requeue puts a waiter that has a hold, or is suspended, back into its line.
func (q *waitlist) requeue(w *Waiter) {
	q.leave(w)
	q.enqueue(w)
}

func (q *waitlist) enqueue(w *Waiter) {
	if w.request.Exact.IsValid() {
		q.exact.add(w)
		return
	}
	i, ok := q.lineOf(w.request.Length)
	if !ok {
		q.lines = slices.Insert(q.lines, i, &line{length: w.request.Length})
	}
	q.lines[i].push(w)
}

// lineOf finds the line of a length, or where it would be.
func (q *waitlist) lineOf(length int) (i int, ok bool) {
	return slices.BinarySearchFunc(q.lines, length, func(l *line, length int) int { return cmp.Compare(l.length, length) })
}

// hold notes that a prefix is held for a waiter: its workspace has had its turn.
func (q *waitlist) hold(w *Waiter, prefix netip.Prefix) {
	q.turns.serve(w.turn) // first, so that its own line is put in order for both at once
	q.leave(w)
	w.held, w.Last = true, prefix
	w.turn.fix()
}

// leave removes a waiter from its line, or ends its hold or its suspension. The caller puts it
// somewhere else, or off the list.
func (q *waitlist) leave(w *Waiter) {
	switch {
	case w.held:
		w.release()
	case w.suspended != (Account{}):
		q.unsuspend(w)
	case w.request.Exact.IsValid():
		q.exact.remove(w)
	default:
		i, _ := q.lineOf(w.request.Length)
		if q.lines[i].remove(w); len(q.lines[i].lanes) == 0 {
			q.lines = slices.Delete(q.lines, i, i+1)
		}
	}
}

// next is the next waiter that a free block of the given length would serve; nil: none.
func (q *waitlist) next(largest int) *Waiter {
	var first *Waiter
	from, _ := q.lineOf(largest)
	for _, l := range q.lines[from:] {
		if w := l.first(); first == nil || before(w, first) < 0 {
			first = w
		}
	}
	return first
}

// suspend removes a waiter from its line until less is held on an account.
func (q *waitlist) suspend(w *Waiter, on Account) {
	q.leave(w)
	w.suspended = on
	if q.suspended[on] == nil {
		q.suspended[on] = map[kind]*byAge{}
	}
	of := kindOf(w.request)
	if q.suspended[on][of] == nil {
		q.suspended[on][of] = newByAge()
	}
	q.suspended[on][of].ReplaceOrInsert(w)
}

// unsuspend ends suspend.
func (q *waitlist) unsuspend(w *Waiter) {
	kinds, of := q.suspended[w.suspended], kindOf(w.request)
	if kinds[of].Delete(w); kinds[of].Len() == 0 {
		delete(kinds, of)
	}
	if len(kinds) == 0 {
		delete(q.suspended, w.suspended)
	}
	w.suspended = Account{}
}
