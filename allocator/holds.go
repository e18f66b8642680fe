package allocator

import (
	"net/netip"
	"slices"
)

// Wait puts a claim on its pool's waiting list: Wake is called when room has
// been found for it, and that room is held for HoldTime. If there is room now,
// that is at once. A claim waits once per pool, and asking again replaces the
// request; it may wait at several pools. Waiting is in memory only, and ends
// with a Bind that succeeds, with Release, with Withdraw, or with the pool.
// Waiting for a pool that is unknown or draining, or has no such length, does
// nothing.
//
// A claim whose workspace has what it may have, by the limits of the request, robs
// nobody: it is passed over until the workspace holds less, and woken then.
func (a *Allocator) Wait(req Request) {
	p, ok := a.find(req.Pool)
	if !ok || req.check() != nil {
		return
	}
	p.space.lock()
	defer p.space.unlock()
	p.space.wait(p, req)
}

// Withdraw takes a claim off all waiting lists. What was held for it is offered
// to the next.
func (a *Allocator) Withdraw(id ClaimID) {
	a.mu.RLock()
	_, waits := a.waits[id]
	a.mu.RUnlock()
	if !waits {
		return
	}
	a.WaitOnly(id)
}

// WaitOnly takes a claim off the waiting lists of all pools but these: of the others, it
// would take none of what is held for it.
func (a *Allocator) WaitOnly(id ClaimID, at ...PoolID) {
	var left, stay []PoolID
	a.mu.Lock()
	for _, pool := range a.waits[id] {
		if slices.Contains(at, pool) {
			stay = append(stay, pool)
		} else {
			left = append(left, pool)
		}
	}
	a.waits[id] = stay
	if len(stay) == 0 {
		delete(a.waits, id)
	}
	a.mu.Unlock()
	for _, pool := range left {
		if p, ok := a.find(pool); ok {
			p.space.lock()
			p.space.withdraw(p, id)
			p.space.unlock()
		}
	}
}

// Waiting is the number of claims that wait for room in a pool, those that room
// is held for included.
func (a *Allocator) Waiting(id PoolID) int {
	p, ok := a.find(id)
	if !ok {
		return 0
	}
	p.space.lock()
	defer p.space.unlock()
	return len(p.waiting.claims)
}

// wait adds a claim to the list of a pool, and holds room for it if there is
// any: the invariant of the list is that none on it fits into what is free.
func (s *space) wait(p *pool, req Request) {
	s.withdraw(p, req.Holder.Claim)
	if p.State != PoolOpen || s.pool(p.ID) != p || req.Length > p.CIDR.Addr().BitLen() {
		return
	}
	w := &waiter{request: req, since: req.Since}
	if w.since.IsZero() {
		w.since = s.alloc.hooks.now()
	}
	s.alloc.remember(w)
	p.waiting.enter(w)
	s.alloc.metrics.waiting.Inc()
	if broken := p.broken(w, nil); broken != nil {
		p.waiting.park(w, accountOf(broken, req.Holder.Cluster))
		return
	}
	p.waiting.line(w)
	if s.frozen() != thawed {
		return
	}
	if _, ok := p.regains(req); ok {
		s.woken = append(s.woken, req.Holder)
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

// remember notes where a claim waits, for Withdraw.
func (a *Allocator) remember(w *waiter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	claim, pool := w.request.Holder.Claim, w.request.Pool
	if !slices.Contains(a.waits[claim], pool) {
		a.waits[claim] = append(a.waits[claim], pool)
	}
}

// withdrawn reports whether the claim of a waiter has left all lists meanwhile.
func (a *Allocator) withdrawn(w *waiter) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return !slices.Contains(a.waits[w.request.Holder.Claim], w.request.Pool)
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
	s.alloc.metrics.waiting.Dec()
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
	if p == nil || p.State != PoolOpen || s.alloc.withdrawn(w) {
		return
	}
	if _, again := p.waiting.claims[w.request.Holder.Claim]; again {
		return
	}
	w.held = false
	p.waiting.enter(w)
	p.waiting.line(w)
	s.alloc.metrics.waiting.Inc()
}

// dismiss empties the list of a pool that hands out nothing any more.
func (s *space) dismiss(p *pool) {
	claims, parked := p.waiting.claims, p.waiting.parked
	p.waiting = waiting{}
	for on := range parked {
		s.unwatch(on)
	}
	s.alloc.metrics.waiting.Sub(float64(len(claims)))
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
	s.woken = append(s.woken, w.request.Holder)
	w.turn++
	turn := w.turn
	w.stop = s.alloc.hooks.after(s.alloc.options.HoldTime, func() { s.expire(w, turn) })
}

// expire passes on what was held for a claim that did not come. The claim waits
// on, as the youngest.
func (s *space) expire(w *waiter, turn int) {
	s.lock()
	defer s.unlock()
	p := s.pool(w.request.Pool)
	if s.alloc.ctx.Err() != nil || p == nil || p.waiting.claims[w.request.Holder.Claim] != w || w.turn != turn {
		return
	}
	w.since = s.alloc.hooks.now()
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
