package space

import (
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Wait adds a claim to the list of a pool, and holds room for it if there is
// any. Always true of the list: no claim without a hold fits into the free space.
func (r *Room) Wait(p *Pool, req ledger.Request) {
	r.replace(p, req)
	if req.Length > p.CIDR.Addr().BitLen() {
		return
	}
	if p.State != ledger.PoolOpen { // it was when it refused the claim
		r.news.wake(&req.Holder)
		return
	}
	w := &Waiter{request: req, since: req.Since}
	if w.since.IsZero() {
		w.since = r.table.Now()
	}
	r.table.Waits.remember(w)
	p.Waiting.add(w)
	r.table.Waiting.Add(1)
	open := r.Pools.Frozen() == NotFrozen
	if _, former := p.FormerBlock(req); former && open { // which no limit stops
		r.news.wake(&req.Holder)
	}
	if broken := p.broken(w, nil); broken != nil {
		p.Waiting.suspend(w, accountOf(broken, w.cluster()))
		return
	}
	if open && p.fits(w) {
		r.hold(p, w)
	}
}

// replace removes a claim from the list of a pool, to which it comes back with another request.
func (r *Room) replace(p *Pool, by ledger.Request) {
	w := p.Waiting.Claims[by.Holder.Claim]
	if w != nil && !w.held && kindOf(w.request) == kindOf(by) {
		r.remove(p, w) // it stays one of those that were put back; see relief
		return
	}
	r.Withdraw(p, by.Holder.Claim)
}

// Withdraw removes a claim from the list of a pool, and ends its hold.
func (r *Room) Withdraw(p *Pool, id ledger.ClaimID) {
	w, ok := p.Waiting.Claims[id]
	if !ok {
		return
	}
	held, on := w.held, w.suspended
	if r.remove(p, w); held {
		r.unreserve(w.Last)
	}
	r.unpledge(w, on)
}

// remove removes a waiter from its list. What is held for it stays reserved.
func (r *Room) remove(p *Pool, w *Waiter) {
	on := w.suspended
	p.Waiting.remove(w)
	r.table.Waiting.Add(-1)
	if on != (Account{}) {
		r.unwatch(on)
	}
}

// clear empties the list of a pool that allocates nothing any more. It wakes the claims: nobody else tells them when the pool is one
// that the system has made, and there may be another one.
func (r *Room) clear(p *Pool) {
	claims, suspended := p.Waiting.Claims, p.Waiting.suspended
	p.Waiting = waitlist{}
	for on := range suspended {
		r.unwatch(on)
	}
	r.table.Waiting.Add(-int64(len(claims)))
	for _, w := range claims {
		r.news.wake(&w.request.Holder)
		if w.held {
			w.release()
			r.unreserve(w.Last)
		}
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

// giveUp releases the hold of a waiter, which waits on, and offers the room.
func (r *Room) giveUp(p *Pool, w *Waiter) {
	r.release(p, w)
	r.offer(w.Last)
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
	if r.freed = append(r.freed, w.Last); by.Of(w.request.Holder.Claim) < 0 {
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
		if a != but && r.table.Quotas.watched(a) {
			r.news.relieve(a)
		}
	}
}

// HeldFor is the prefix that is held for a request; ok is false if there is none.
func (p *Pool) HeldFor(req ledger.Request) (prefix netip.Prefix, ok bool) {
	w := p.Waiting.Claims[req.Holder.Claim]
	if w == nil || !w.held || !w.asks(req) {
		return netip.Prefix{}, false
	}
	return w.Last, true
}

// Waits reports whether a request is the one that waits, or none of its claim does.
func (p *Pool) Waits(req ledger.Request) bool {
	w := p.Waiting.Claims[req.Holder.Claim]
	return w == nil || w.asks(req)
}

// asks reports whether a request is the one that waits.
func (w *Waiter) asks(req ledger.Request) bool {
	return w.request.Exact == req.Exact && (req.Exact.IsValid() || w.request.Length == req.Length)
}
