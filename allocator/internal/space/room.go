package space

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/kcp-ipam/ipam/allocator/ledger"
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

// unreserve gives a reserved prefix back, and offers it to the claims that wait.
func (r *Room) unreserve(prefix netip.Prefix) {
	r.reserved.remove(prefix)
	r.Pools.put(prefix)
	r.offer(prefix)
}

// offerFreed offers to the claims that wait what changes have freed, once all changes of their revision are in.
func (r *Room) offerFreed() {
	freed := r.freed
	r.freed = nil
	for _, prefix := range freed {
		r.offer(prefix)
	}
}

// offer offers a prefix that may have become free to the claims that wait at any pool.
func (r *Room) offer(prefix netip.Prefix) {
	for p := range r.Pools.over(prefix) {
		r.serve(p, prefix)
	}
}

// offerAll offers all free room, and wakes the claims whose former block cools.
func (r *Room) offerAll() {
	for _, p := range r.Pools {
		r.serve(p, p.CIDR)
		r.wakeFormer(p)
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

// Unfreeze makes a change that may end the freeze of the space, and then offers its room.
func (r *Room) Unfreeze(change func()) {
	before := r.Pools.Frozen()
	change()
	if before != NotFrozen && r.Pools.Frozen() == NotFrozen {
		r.offerAll()
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
	for _, x := range record.Excluded {
		p.Index.Exclude(x)
		for prefix, w := range r.reserved.all() {
			if w.request.Pool == p.ID && prefix.Overlaps(x) {
				r.giveUp(p, w)
			}
		}
	}
	for _, x := range old {
		if !slices.Contains(record.Excluded, x) && p.Index.Include(x) {
			r.serve(p, x)
		}
	}
}

// serve holds free room of a pool for its waiters, in their turn, until none of them fits.
// It passes over waiters for an exact prefix that does not overlap what became free.
func (r *Room) serve(p *Pool, freed netip.Prefix) {
	if len(p.Waiting.Claims) == 0 || r.Pools.Frozen() != NotFrozen {
		return
	}
	exact := p.Waiting.exact.touching(freed, p.Index.Free)
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
	r.news.wake(&w.request.Holder) // its claim says what it waits for now
	if !w.request.Exact.IsValid() {
		return
	}
	if next, ok := p.Waiting.exact.following(w); ok {
		exact.push(next)
	}
}
