package allocator

import (
	"net/netip"
)

// wait adds a claim to the list of a pool, and holds room for it if there is
// any: the invariant of the list is that none on it fits into what is free.
func (s *space) wait(p *pool, req Request) {
	s.withdraw(p, req.Holder.Claim)
	if p.State != PoolOpen || s.pool(p.ID) != p || req.Length > p.CIDR.Addr().BitLen() {
		return
	}
	w := &waiter{request: req, since: req.Since}
	if w.since.IsZero() {
		w.since = s.table.Now()
	}
	s.table.remember(w)
	p.waiting.enter(w)
	s.table.waiting.Add(1)
	if broken := p.broken(w, nil); broken != nil {
		p.waiting.park(w, accountOf(broken, req.Holder.Cluster))
		return
	}
	p.waiting.line(w)
	if s.frozen() != thawed {
		return
	}
	if _, ok := p.regains(req); ok {
		s.news.woken = append(s.news.woken, req.Holder)
	}
	if p.fits(w) {
		s.hold(p, w)
	}
}

// fits reports whether there is room for a waiter.
func (p *pool) fits(w *waiter) bool {
	if w.request.Exact.IsValid() {
		return p.index.Free(w.request.Exact)
	}
	largest, ok := p.index.Largest()
	return ok && w.request.Length >= largest
}

// withdraw takes a claim off the list of a pool.
func (s *space) withdraw(p *pool, id ClaimID) {
	w, ok := p.waiting.claims[id]
	if !ok {
		return
	}
	s.remove(p, w)
	if w.held {
		s.unreserve(w.last)
	}
}

// remove takes a waiter off its list. What is held for it stays reserved.
func (s *space) remove(p *pool, w *waiter) {
	on := w.parked
	p.waiting.step(w)
	p.waiting.remove(w)
	s.table.waiting.Add(-1)
	if w.held {
		w.stop()
	}
	if on != (account{}) {
		s.unwatch(on)
	}
}

// rejoin puts a waiter back on the list of its pool, at its old place.
func (s *space) rejoin(w *waiter) {
	p := s.pool(w.request.Pool)
	if p == nil || p.State != PoolOpen || s.table.withdrawn(w) {
		return
	}
	if _, again := p.waiting.claims[w.request.Holder.Claim]; again {
		return
	}
	w.held = false
	p.waiting.enter(w)
	p.waiting.line(w)
	s.table.waiting.Add(1)
}

// dismiss empties the list of a pool that hands out nothing any more.
func (s *space) dismiss(p *pool) {
	claims, parked := p.waiting.claims, p.waiting.parked
	p.waiting = waiting{}
	for on := range parked {
		s.unwatch(on)
	}
	s.table.waiting.Add(-int64(len(claims)))
	for _, w := range claims {
		if w.held {
			w.stop()
			s.unreserve(w.last)
		}
	}
}

// offer holds free room of a pool for the waiters in their turn, until none of them
// fits. Of those for an exact prefix only the ones that touch what became free are
// looked at.
func (s *space) offer(p *pool, freed netip.Prefix) {
	if len(p.waiting.claims) == 0 || s.frozen() != thawed {
		return
	}
	exact := p.waiting.touching(freed)
	for {
		w := p.first(exact)
		if w == nil {
			return
		}
		if !s.parks(p, w) {
			s.hold(p, w)
			exact.fix(w.cluster())
		}
	}
}

// first is the waiter whose turn it is of those that fit, in the lines of the pool and in
// the given one of exact waiters, which it leaves. An exact one that does not fit leaves
// it, too: in the course of an offer nothing becomes free.
func (p *pool) first(exact *line) *waiter {
	var w *waiter
	if largest, ok := p.index.Largest(); ok {
		w = p.waiting.next(largest)
	}
	for len(exact.lanes) > 0 && !p.index.Free(exact.first().request.Exact) {
		exact.remove(exact.first())
	}
	if len(exact.lanes) == 0 || w != nil && p.waiting.before(w, exact.first()) < 0 {
		return w
	}
	w = exact.first()
	exact.remove(w)
	return w
}

// hold reserves room for a waiter, and has it woken.
func (s *space) hold(p *pool, w *waiter) {
	prefix := w.request.Exact
	if !prefix.IsValid() {
		prefix, _ = p.index.Find(w.request.Length, w.request.Strategy)
	}
	p.waiting.step(w)
	p.waiting.serve(w)
	w.held, w.last = true, prefix
	s.reserve(prefix, w)
	s.news.woken = append(s.news.woken, w.request.Holder)
	w.turn++
	turn := w.turn
	w.stop = s.table.After(s.table.HoldTime, func() { s.expire(w, turn) })
}

// expire passes on what was held for a claim that did not come. The claim waits
// on, as the youngest.
func (s *space) expire(w *waiter, turn int) {
	s.lock()
	defer s.unlock()
	p := s.pool(w.request.Pool)
	if s.gone || p == nil || p.waiting.claims[w.request.Holder.Claim] != w || w.turn != turn {
		return
	}
	w.since = s.table.Now()
	s.release(p, w)
}

// release gives up what is held for a waiter, who waits on.
func (s *space) release(p *pool, w *waiter) {
	w.stop()
	w.held = false
	p.waiting.line(w)
	s.unreserve(w.last)
}

// evict gives up a hold on exactly the prefix that another allocator has bound.
func (s *space) evict(prefix netip.Prefix) {
	if w := s.reserved[prefix]; w != nil {
		s.release(s.pool(w.request.Pool), w)
	}
}

// vacate gives up the holds of a pool that touch a prefix, which was excluded.
func (s *space) vacate(p *pool, excluded netip.Prefix) {
	for prefix, w := range s.reserved {
		if w != nil && w.request.Pool == p.ID && prefix.Overlaps(excluded) {
			s.release(p, w)
		}
	}
}

// serve hands a claim what is held for it in the pool, if the request is still
// the one that waited: it is free when serve returns, and nobody else is asked
// first. nil: nothing is held.
func (s *space) serve(p *pool, req Request) *waiter {
	w, ok := p.waiting.claims[req.Holder.Claim]
	if !ok || !w.held {
		return nil
	}
	s.remove(p, w)
	delete(s.reserved, w.last)
	s.give(w.last)
	same := w.request.Exact == req.Exact && (req.Exact.IsValid() || w.request.Length == req.Length)
	if same && p.index.Free(w.last) {
		return w
	}
	s.offerAll(w.last)
	return nil
}
