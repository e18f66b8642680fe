package space

import (
	"cmp"
	"math/big"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// looksAtOnce bounds how many suspended waiters without room are looked at while the lock is held once.
const looksAtOnce = 100

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
		w := l.next(r, p)
		if w == nil {
			return false
		}
		if l.look(r, p, w); !w.held {
			without++
		}
	}
	return true
}

// next returns the oldest waiter that is left to look at; nil: none is. One for exactly a free prefix comes first; see
// preferred.
func (l *relief) next(r *Room, p *Pool) *Waiter {
	var wished, oldest *Waiter
	for of, waiters := range p.Waiting.suspended[l.on] {
		if l.done[of] {
			continue
		}
		if of.exact && r.Pools.Frozen() == NotFrozen {
			wished = olderOf(wished, preferred(waiters, p.fits))
		}
		first, _ := waiters.Min()
		oldest = olderOf(oldest, first)
	}
	return cmp.Or(wished, oldest)
}

// olderOf returns the older of two waiters. Either may be nil.
func olderOf(a, b *Waiter) *Waiter {
	if a == nil || b != nil && older(b, a) < 0 {
		return b
	}
	return a
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
