package space

import (
	"iter"
	"net/netip"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Wait adds a claim to the waitlist of a pool, and holds room for it if there is any. So no waiting claim fits into the
// free space, except claims that have a hold, or that a limit stops.
func (r *Room) Wait(p *Pool, req ledger.Request) {
	if w := p.Waiting.find(req.Holder.Claim); w != nil && (w.held || !w.alike(req)) {
		r.Withdraw(p, req.Holder.Claim)
	}
	if req.Length > p.CIDR.Addr().BitLen() {
		return
	}
	if p.State != ledger.PoolOpen { // the pool was open when it refused the claim
		r.news.wake(&req.Holder)
		return
	}
	w := &Waiter{request: req, since: req.Since}
	if w.since.IsZero() {
		w.since = r.table.Now()
	}
	r.add(p, w)
	open := r.Pools.Frozen() == NotFrozen
	if _, former := p.FormerBlock(req); former && open { // no limit keeps a claim from its former block
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

// Withdraw removes a claim from the waitlist of a pool, and ends its hold.
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

// clear empties the waitlist of a pool that allocates nothing any more, and wakes its claims. If the pool is derived,
// nothing else wakes them, and there may be another pool for them.
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

// without yields the prefixes of list that other lacks. Both are in the order of their addresses. A pool may have many
// address spaces, and the writer updates all of them with the pool: so this function costs little where the lists
// agree.
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

// Unfreeze calls change, which may end the freeze of the space. If it does, Unfreeze offers all free room.
func (r *Room) Unfreeze(change func()) {
	before := r.Pools.Frozen()
	change()
	if before != NotFrozen && r.Pools.Frozen() == NotFrozen {
		r.offerAll()
	}
}

// offerFreed offers the waiting claims the prefixes that the applied changes have freed. It is called when all changes
// of a transaction are in memory.
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

// offer offers some prefixes, which may have become free, to the claims that wait at any pool. All prefixes of a
// transaction come at once: else a claim for any block would get the block that another claim waits for.
func (r *Room) offer(freed ...netip.Prefix) {
	for _, p := range r.Pools {
		if slices.ContainsFunc(freed, p.CIDR.Overlaps) {
			r.serve(p)
		}
	}
}

// wakeFormer wakes each waiting claim whose former block cools in the pool and can be given back.
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

// expire ends the holds of a clock, for claims that did not come, and offers their room. These claims go on waiting, as
// the youngest.
func (r *Room) expire(c *clock) {
	r.lock.Lock()
	defer r.lock.Unlock()
	var freed []netip.Prefix
	now := r.table.Now()
	for _, w := range c.waiters {
		if w.clock != c { // its claim came, or has withdrawn
			continue
		}
		w.since = now
		r.release(w)
		r.Pools.Find(w.request.Pool).Waiting.put(w)
		freed = append(freed, w.Last)
	}
	r.offer(freed...)
}
