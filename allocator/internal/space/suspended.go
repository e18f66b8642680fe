package space

import (
	"math/big"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// looksAtOnce bounds how many suspended waiters without room are looked at while the lock is held once.
const looksAtOnce = 100

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

// unwatch ends the room's watch of an account, unless a waiter is still suspended on it. Else the
// accounts of workspaces and pools that are gone would be watched for ever.
func (r *Room) unwatch(on Account) {
	if !slices.ContainsFunc(r.Pools, func(p *Pool) bool { return p.Waiting.suspended[on] != nil }) {
		r.table.Quotas.unwatch(on, r)
	}
}

// relief puts waiters of one pool that are suspended on an account back into their lines, oldest
// first, until the limit is reached by what is held for them. It wakes them whether there is room or
// not, because the reason for which they wait has changed.
//
// Of each kind it puts back as many as the limit has addresses for, and no more: where the first of
// them has no room, none has. The others stay suspended. They are checked again when one of those
// that were put back leaves without a block; see unpledge. So the cost grows with the addresses that
// were released, and not with the number of waiters.
type relief struct {
	on   Account
	pool ledger.PoolID
	held *big.Int          // for those that had room
	back map[kind]*big.Int // the addresses that those of a kind ask for that had none; not of an exact kind
	done map[kind]bool     // the limit stops the oldest that is left

	looks int
}

// requeue makes a relief for each pool of the room. It returns how many waiters were looked at.
func (r *Room) requeue(on Account) (looks int) {
	var pools []ledger.PoolID
	r.lock.Lock()
	for _, p := range r.Pools {
		if p.Waiting.suspended[on] != nil {
			pools = append(pools, p.ID)
		}
	}
	r.lock.Unlock()
	for _, id := range pools {
		l := relief{on: on, pool: id, held: new(big.Int), back: map[kind]*big.Int{}, done: map[kind]bool{}}
		for l.some(r) {
			continue
		}
		looks += l.looks
	}
	return looks
}

// some looks at some waiters, with the lock held. It reports whether there are more.
func (l *relief) some(r *Room) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	p := r.Pools.Find(l.pool)
	if p == nil {
		return false
	}
	for without := 0; without < looksAtOnce; l.looks++ {
		w := l.next(p)
		if w == nil {
			return false
		}
		if l.look(r, p, w); !w.held {
			without++
		}
	}
	return true
}

// next returns the oldest waiter that is left to look at; nil: none is.
func (l *relief) next(p *Pool) (oldest *Waiter) {
	for of, waiters := range p.Waiting.suspended[l.on] {
		if l.done[of] {
			continue
		}
		if w, _ := waiters.Min(); oldest == nil || older(w, oldest) < 0 {
			oldest = w
		}
	}
	return oldest
}

// look puts a waiter back into its line, or onto the list of another account whose limit stops it, if
// the limit of this one does not stop it.
func (l *relief) look(r *Room, p *Pool, w *Waiter) {
	of, wanted, pledged := kindOf(w.request), p.wanted(w.request), new(big.Int).Set(l.held)
	if back := l.back[of]; back != nil {
		pledged.Add(pledged, back)
	}
	broken := p.broken(w, Pending{l.on: pledged})
	if broken != nil && accountOf(broken, w.cluster()) == l.on {
		l.done[of] = true
		return
	}
	switch {
	case broken != nil:
		p.Waiting.suspend(w, accountOf(broken, w.cluster()))
		r.news.wake(&w.request.Holder)
	case r.Pools.Frozen() == NotFrozen && p.fits(w):
		r.hold(p, w) // which wakes it
	default:
		p.Waiting.requeue(w)
		r.news.wake(&w.request.Holder)
	}
	switch {
	case w.held:
		l.held.Add(l.held, wanted)
	case !of.exact:
		if l.back[of] == nil {
			l.back[of] = new(big.Int)
		}
		l.back[of].Add(l.back[of], wanted)
	}
}

// Relieve requeues the waiters that are suspended on some accounts, on which less is held now.
func (t *Table) Relieve(accounts []Account) {
	for _, to := range accounts {
		for r := range t.Quotas.take(to) {
			r.requeue(to)
		}
	}
}
