package space

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// Room is the free room of a space, the prefixes that are reserved, and the claims that wait.
// Room that becomes free is offered at once, so that no waiting claim fits into the free space. It
// keeps no blocks and no owners. The space's lock guards it.
type Room struct {
	Pools    Pools
	reserved prefixes[*Waiter] // taken in the indexes, not in the ledger: those that are held for a waiter
	freed    []netip.Prefix    // by the changes that are being applied

	clock *clock // of the holds that are made until the lock is released; nil: there is none yet
	table *Table
	lock  sync.Locker // of the space
	news  *News       // of the space
}

// remove removes a waiter from its list. What is held for it stays reserved.
func (r *Room) remove(p *Pool, w *Waiter) {
	on := w.suspended
	if p.Waiting.remove(w); p.goes() {
		r.news.Touch(p.ID) // an address space without a block goes with its last waiter
	}
	r.table.Waiting.Add(-1)
	if on != (Account{}) {
		r.unlisten(on)
	}
}

// hold reserves room for a waiter in a line, and wakes it.
func (r *Room) hold(p *Pool, w *Waiter) {
	prefix := w.request.Exact
	if !prefix.IsValid() {
		prefix, _ = p.Index.Find(w.request.Length, w.request.Strategy)
	}
	p.Waiting.hold(w, prefix)
	r.reserved.put(prefix, w)
	r.Pools.take(prefix)
	r.news.wake(&w.request.Holder)
	r.start(w)
}

// release releases the hold of a waiter, which waits on.
func (r *Room) release(p *Pool, w *Waiter) {
	p.Waiting.requeue(w)
	r.reserved.remove(w.Last)
	r.Pools.put(w.Last)
	r.unpledge(w, Account{})
}

// endHolds ends the holds that overlap the prefix of a block that comes. Usually that is the hold of the block's own
// claim.
func (r *Room) endHolds(prefix netip.Prefix, by store.Record) {
	if w, ok := r.reserved.get(prefix); ok {
		r.endHold(w, by)
	}
	if r.reserved.len() == 0 || r.Pools.vacant(prefix) {
		return
	}
	for held, w := range r.reserved.all() {
		if held.Overlaps(prefix) {
			r.endHold(w, by)
		}
	}
}

// endHold ends the hold of a waiter at the place of a block. The wait of the block's own claim is over; any
// other waits on.
func (r *Room) endHold(w *Waiter, by store.Record) {
	p := r.Pools.Find(w.request.Pool)
	if r.freed = append(r.freed, w.Last); !by.Of(w.request.Holder.Claim) {
		r.release(p, w)
		return
	}
	r.remove(p, w)
	r.reserved.remove(w.Last)
	r.Pools.put(w.Last)
}

// unpledge requeues the waiters that are suspended on the accounts of a waiter which has lost its hold, or
// its place. It may be that waiter alone which stops them, and not what their workspace has in the ledger.
// That is not so of the account on which it was suspended itself; the zero Account: on none.
func (r *Room) unpledge(w *Waiter, but Account) {
	for _, a := range []Account{PoolAccount(w.request), ClassAccount(w.request)} {
		if a != but && r.table.Quotas.hears(a) {
			r.news.relieve(a)
		}
	}
}

// unlisten lets the room listen no more to an account, unless a waiter is still suspended on it. Else the
// accounts of workspaces and pools that are gone would be listened to for ever.
func (r *Room) unlisten(on Account) {
	if !slices.ContainsFunc(r.Pools, func(p *Pool) bool { return p.Waiting.suspended[on] != nil }) {
		r.table.Quotas.unlisten(on, r)
	}
}

// start starts the clock of a hold.
func (r *Room) start(w *Waiter) {
	if r.clock == nil || r.clock.held == 0 { // then it has stopped
		c := &clock{}
		c.stop = r.table.After(r.table.HoldTime, func() { r.expire(c) })
		r.clock = c
	}
	w.clock = r.clock
	w.clock.waiters = append(w.clock.waiters, w)
	w.clock.held++
}
