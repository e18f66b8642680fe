package space

import (
	"iter"
	"net/netip"
	"slices"

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

// clear empties the list of a pool that allocates nothing any more. It wakes the claims: nobody else tells them when
// the pool is one that the system has made, and there may be another one.
func (r *Room) clear(p *Pool) {
	claims, suspended := p.Waiting.Claims, p.Waiting.suspended
	p.Waiting = waitlist{}
	for on := range suspended {
		r.unlisten(on)
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

// update replaces a pool's record, and brings the index in line with its exclusions.
func (r *Room) update(p *Pool, record ledger.Pool) {
	old := p.Excluded
	r.Unfreeze(func() { p.Pool = record })
	r.table.Amend(p)
	r.news.Touch(p.ID)
	if record.State != ledger.PoolOpen {
		r.clear(p)
	}
	for x := range without(record.Excluded, old) {
		p.Index.Exclude(x)
		for prefix, w := range r.reserved.all() {
			if w.request.Pool == p.ID && prefix.Overlaps(x) {
				r.giveUp(p, w)
			}
		}
	}
	for x := range without(old, record.Excluded) {
		if p.Index.Include(x) {
			r.serve(p, x)
		}
	}
}

// without yields the prefixes of one list that another one lacks. Both are in the order of their addresses. A pool may
// have many address spaces, and the writer brings all of them in line: so it costs little where the lists agree.
func without(list, other []netip.Prefix) iter.Seq[netip.Prefix] {
	return func(yield func(netip.Prefix) bool) {
		for _, x := range list {
			for len(other) > 0 && ledger.ComparePrefixes(other[0], x) < 0 {
				other = other[1:]
			}
			if (len(other) == 0 || other[0] != x) && !yield(x) {
				return
			}
		}
	}
}

// Unfreeze makes a change that may end the freeze of the space, and then offers its room.
func (r *Room) Unfreeze(change func()) {
	before := r.Pools.Frozen()
	change()
	if before != NotFrozen && r.Pools.Frozen() == NotFrozen {
		r.offerAll()
	}
}

// offerFreed offers to the claims that wait what changes have freed, once all changes of their revision are in.
func (r *Room) offerFreed() {
	freed := r.freed
	r.freed = nil
	r.offer(freed...)
}

// offerAll offers all free room, and wakes the claims whose former block cools.
func (r *Room) offerAll() {
	for _, p := range r.Pools {
		r.serve(p, p.CIDR)
		r.wakeFormer(p)
	}
}

// offer offers prefixes that may have become free to the claims that wait at any pool: all at once, as a claim that
// takes any block would get the one that another waits for.
func (r *Room) offer(freed ...netip.Prefix) {
	for _, p := range r.Pools {
		if slices.ContainsFunc(freed, p.CIDR.Overlaps) {
			r.serve(p, freed...)
		}
	}
}

// wakeFormer wakes each claim that gets a cooling block of the pool back.
func (r *Room) wakeFormer(p *Pool) {
	if r.Pools.Frozen() != NotFrozen {
		return
	}
	for _, w := range p.Waiting.names {
		if _, ok := p.FormerBlock(w.request); ok {
			r.news.wake(&w.request.Holder)
		}
	}
}

// serve holds free room of a pool for its waiters, in their turn, until none of them fits.
// It passes over waiters for an exact prefix that does not overlap what became free.
func (r *Room) serve(p *Pool, freed ...netip.Prefix) {
	if len(p.Waiting.Claims) == 0 || r.Pools.Frozen() != NotFrozen {
		return
	}
	exact := p.Waiting.exact.touching(p.Index.Free, freed...)
	for w := p.first(exact); w != nil; w = p.first(exact) {
		if broken := p.broken(w, nil); broken != nil {
			r.pass(p, w, accountOf(broken, w.cluster()), exact)
			continue
		}
		r.hold(p, w)
	}
}

// pass passes over a waiter whose limit is met. Where it waits for an exact prefix, the next of its
// workspace that does takes its place.
func (r *Room) pass(p *Pool, w *Waiter, on Account, exact *line) {
	p.Waiting.suspend(w, on)
	r.news.wake(&w.request.Holder) // its claim names the limit that it waits for now
	if !w.request.Exact.IsValid() {
		return
	}
	if next, ok := p.Waiting.exact.following(w); ok {
		exact.push(next)
	}
}

// unreserve gives a reserved prefix back, and offers it to the claims that wait.
func (r *Room) unreserve(prefix netip.Prefix) {
	r.reserved.remove(prefix)
	r.Pools.put(prefix)
	r.offer(prefix)
}

// giveUp releases the hold of a waiter, which waits on, and offers the room.
func (r *Room) giveUp(p *Pool, w *Waiter) {
	r.release(p, w)
	r.offer(w.Last)
}

// expire passes on the room that is still held for claims that did not come. They wait on, as the
// youngest.
func (r *Room) expire(c *clock) {
	r.lock.Lock()
	defer r.lock.Unlock()
	now := r.table.Now()
	for _, w := range c.waiters {
		if w.clock != c { // it came, or has withdrawn
			continue
		}
		w.since = now
		r.giveUp(r.Pools.Find(w.request.Pool), w)
	}
}
