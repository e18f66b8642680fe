package space

import (
	"iter"
	"net/netip"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Wait adds a claim to the list of a pool, and holds room for it if there is
// any. Always true of the list: no claim without a hold fits into the free space, unless a limit stops it.
func (r *Room) Wait(p *Pool, req ledger.Request) {
	if w := p.Waiting.find(req.Holder.Claim); w != nil && (w.held || !w.alike(req)) {
		r.Withdraw(p, req.Holder.Claim)
	}
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
	r.add(p, w)
	open := r.Pools.Frozen() == NotFrozen
	if _, former := p.FormerBlock(req); former && open { // which no limit stops
		r.news.wake(&req.Holder)
	}
	if broken := p.Over(req, r.holds); broken != nil {
		w.reason = reasonOf(broken)
		p.Waiting.put(w)
		return
	}
	if open && p.fits(w) {
		r.hold(p, w)
	}
}

// Withdraw removes a claim from the list of a pool, and ends its hold.
func (r *Room) Withdraw(p *Pool, id ledger.ClaimID) {
	w := p.Waiting.find(id)
	if w == nil {
		return
	}
	held := w.held
	if r.remove(p, w); held {
		r.release(w)
		r.offer(w.Last)
	}
}

// clear empties the list of a pool that allocates nothing any more. It wakes the claims: nobody else tells them when
// the pool is one that the system has made, and there may be another one.
func (r *Room) clear(p *Pool) {
	var freed []netip.Prefix
	for w := range p.Waiting.all() {
		r.left(w)
		r.news.wake(&w.request.Holder)
		if w.held {
			r.release(w)
			freed = append(freed, w.Last)
		}
	}
	p.Waiting = waitlist{}
	r.offer(freed...)
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
	var freed []netip.Prefix
	for x := range without(record.Excluded, old) {
		p.Index.Exclude(x)
		for prefix, w := range r.reserved.all() {
			if w.request.Pool == p.ID && prefix.Overlaps(x) {
				r.release(w)
				p.Waiting.put(w)
				freed = append(freed, prefix)
			}
		}
	}
	for x := range without(old, record.Excluded) {
		if p.Index.Include(x) {
			freed = append(freed, x)
		}
	}
	r.offer(freed...)
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
		r.serve(p)
		r.wakeFormer(p)
	}
}

// offer offers prefixes that may have become free to the claims that wait at any pool: all at once, as a claim that
// takes any block would get the one that another waits for.
func (r *Room) offer(freed ...netip.Prefix) {
	for _, p := range r.Pools {
		if slices.ContainsFunc(freed, p.CIDR.Overlaps) {
			r.serve(p)
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

// expire passes on the room that is still held for claims that did not come. They wait on, as the
// youngest.
func (r *Room) expire(c *clock) {
	r.lock.Lock()
	defer r.lock.Unlock()
	var freed []netip.Prefix
	now := r.table.Now()
	for _, w := range c.waiters {
		if w.clock != c { // it came, or has withdrawn
			continue
		}
		w.since = now
		r.release(w)
		r.Pools.Find(w.request.Pool).Waiting.put(w)
		freed = append(freed, w.Last)
	}
	r.offer(freed...)
}
