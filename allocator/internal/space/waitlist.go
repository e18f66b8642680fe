package space

import (
	"cmp"
	"iter"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/internal/wait"
)

// waitlist keeps the claims that wait for room in one pool. Room that becomes free is held for the next claim that
// fits, so a new claim finds only room that no waiting claim could use. Workspaces take turns; see wait.List. Within a
// workspace, a claim for exactly the freed prefix is first; see sweep.wishes. Otherwise the oldest claim is. The zero
// value is empty. The space's lock guards it.
type waitlist struct {
	list  *wait.List[ledger.ClaimID, thing, *Waiter] // nil: no claim has waited yet
	names map[former]*Waiter                         // by the name of the claim
}

// round is a round over some waiters of a pool.
type round = wait.Round[ledger.ClaimID, thing, *Waiter]

// thing is a kind of block and the reason for which a waiter waits. The waiter's claim shows the reason. Waiters of one
// workspace for one thing are alike: a limit that stops one of them stops all, and if no free room is large enough for
// one, none is for the others.
type thing struct {
	kind
	reason reason
}

// kind describes the block that a waiter would take.
type kind struct {
	class  string
	length int
	exact  bool // each needs room of its own
}

// reason is why a claim waits.
type reason uint8

const (
	noRoom       reason = iota // no room fits; a limit may stop it nevertheless
	overOfPool                 // its workspace holds as much of the pool as it may
	overForClass               // its workspace holds as much by its class as it may
)

// reasonOf returns the reason of a claim that a limit stops.
func reasonOf(broken *ledger.QuotaError) reason {
	if broken.Class != "" {
		return overForClass
	}
	return overOfPool
}

func kindOf(r ledger.Request) kind {
	if r.Exact.IsValid() {
		return kind{r.Class, r.Exact.Bits(), true}
	}
	return kind{r.Class, r.Length, false}
}

// Len counts the claims, those with a hold included.
func (q *waitlist) Len() int {
	if q.list == nil {
		return 0
	}
	return q.list.Len()
}

// find returns the waiter of a claim; nil: it does not wait.
func (q *waitlist) find(id ledger.ClaimID) *Waiter {
	if q.Len() == 0 {
		return nil
	}
	if w := q.list.Get(id); w != nil {
		return w.Value
	}
	return nil
}

// all yields the waiters, in no order.
func (q *waitlist) all() iter.Seq[*Waiter] {
	return func(yield func(*Waiter) bool) {
		if q.Len() == 0 {
			return
		}
		for w := range q.list.All() {
			if !yield(w.Value) {
				return
			}
		}
	}
}

// add puts a waiter on the list, in place of the former waiter of the same claim.
func (q *waitlist) add(w *Waiter) {
	if q.list == nil {
		*q = waitlist{wait.New[ledger.ClaimID, thing, *Waiter](cmp.Compare[ledger.ClaimID]), map[former]*Waiter{}}
	}
	q.names[formerOf(w.request.Holder)] = w
	q.put(w)
}

// put files a waiter under the thing that it waits for. While the waiter has a hold, put files it under no thing, so
// that no round returns it.
func (q *waitlist) put(w *Waiter) {
	var things []thing
	if !w.held {
		things = []thing{{kindOf(w.request), w.reason}}
	}
	q.list.Put(w.request.Holder.Claim, string(w.cluster()), w.since, w, things...)
}

// remove takes a waiter off the list.
func (q *waitlist) remove(w *Waiter) {
	q.list.Drop(w.request.Holder.Claim)
	if name := formerOf(w.request.Holder); q.names[name] == w {
		delete(q.names, name)
	}
}

// things returns each thing that some waiter waits for, if the thing suits.
func (q *waitlist) things(suit func(thing) bool) (all []thing) {
	if q.Len() == 0 {
		return nil
	}
	for t := range q.list.Things() {
		if suit(t) {
			all = append(all, t)
		}
	}
	return all
}
