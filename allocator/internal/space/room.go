package space

import (
	"net/netip"
	"sync"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// Room is the free room of a space, the prefixes that are reserved, and the claims that wait. Room that becomes free is
// offered at once, so that no waiting claim fits into the free space. Room has no blocks and no owners. The space's
// lock guards it.
type Room struct {
	Pools    Pools
	reserved prefixes[*Waiter] // held for a waiter: taken in the indexes, not in the ledger
	freed    []netip.Prefix    // freed by the changes that are being applied
	holds    Pending           // the addresses of the holds, on the accounts that limit them

	clock *clock // clock of the holds that are made before the lock is released; nil: none was made yet
	table *Table
	lock  sync.Locker // of the space
	news  *News       // of the space
}

// add puts a waiter on the waitlist of a pool, in place of the former waiter of the same claim.
func (r *Room) add(p *Pool, w *Waiter) {
	if p.Waiting.find(w.request.Holder.Claim) == nil {
		r.table.Waits.enter(w)
		r.table.Waiting.Add(1)
	}
	p.Waiting.add(w)
}

// remove removes a waiter from the waitlist of a pool. A waiter that waits for room has a place below its limits;
// remove leaves this place to the other waiters of its workspace.
func (r *Room) remove(p *Pool, w *Waiter) {
	if p.Waiting.remove(w); p.goes() {
		r.news.Touch(p.ID) // an address space without a block goes with its last waiter
	}
	r.left(w)
	if w.reason == noRoom {
		r.lowered(limitedBy(w.request)...)
	}
}

// left stops counting a waiter that has left its waitlist.
func (r *Room) left(w *Waiter) {
	r.table.Waits.leave(w)
	r.table.Waiting.Add(-1)
}

// lowered notes that fewer addresses are used or held on some accounts, if a claim of their workspace waits.
func (r *Room) lowered(accounts ...Account) {
	for _, a := range accounts {
		if r.table.Waits.any(a.Cluster) {
			r.news.lower(a)
		}
	}
}

// hold reserves room for a waiter, and wakes its claim. The workspace of the claim has had its turn then.
func (r *Room) hold(p *Pool, w *Waiter) {
	prefix := w.request.Exact
	if !prefix.IsValid() {
		prefix, _ = p.Index.Find(w.request.Length, w.request.Strategy)
	}
	w.held, w.Last, w.reason = true, prefix, noRoom
	p.Waiting.list.Serve(w.request.Holder.Claim)
	p.Waiting.put(w)
	r.countHold(w, 1)
	r.reserved.put(prefix, w)
	r.Pools.take(prefix)
	r.news.wake(&w.request.Holder)
	r.start(w)
}

// release ends the hold of a waiter. The caller puts the waiter on its waitlist again, or removes it, and offers the
// room.
func (r *Room) release(w *Waiter) {
	w.release()
	r.reserved.remove(w.Last)
	r.Pools.put(w.Last)
	r.countHold(w, -1)
	r.lowered(limitedBy(w.request)...)
}

// countHold adds the room that is held for a waiter to the accounts that limit it, or removes it if sign is negative.
func (r *Room) countHold(w *Waiter, sign int) {
	for _, a := range limitedBy(w.request) {
		if r.holds == nil {
			r.holds = Pending{}
		}
		n := cidr.Size(w.Last)
		if sign < 0 {
			n.Neg(n)
		}
		usage(r.holds).add(a, n)
	}
}

// endHolds ends the holds that overlap the prefix of a new block. Usually that is the hold of the block's own claim.
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

// endHold ends a waiter's hold, because a new block overlaps the prefix that was held. If the block is the waiter's
// own, the wait is over. Otherwise the waiter goes on waiting.
func (r *Room) endHold(w *Waiter, by store.Record) {
	p := r.Pools.Find(w.request.Pool)
	r.freed = append(r.freed, w.Last)
	if by.Of(w.request.Holder.Claim) {
		r.remove(p, w)
		r.release(w)
		return
	}
	r.release(w)
	p.Waiting.put(w)
}

// start adds a hold to the clock that runs, or to a new one.
func (r *Room) start(w *Waiter) {
	if r.clock == nil || r.clock.held == 0 { // a clock without holds has stopped
		c := &clock{}
		c.stop = r.table.After(r.table.HoldTime, func() { r.expire(c) })
		r.clock = c
	}
	w.clock = r.clock
	w.clock.waiters = append(w.clock.waiters, w)
	w.clock.held++
}
