package space

import (
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Wait adds a claim to the list of a pool, and holds room for it if there is
// any: the invariant of the list is that none on it fits into what is free.
func (s *Space) Wait(p *Pool, req ledger.Request) {
	s.Withdraw(p, req.Holder.Claim)
	if p.State != ledger.PoolOpen || s.Pool(p.ID) != p || req.Length > p.CIDR.Addr().BitLen() {
		return
	}
	w := &Waiter{request: req, since: req.Since}
	if w.since.IsZero() {
		w.since = s.Table.Now()
	}
	s.Table.remember(w)
	p.Waiting.add(w)
	s.Table.Waiting.Add(1)
	if broken := p.broken(w, nil); broken != nil {
		p.Waiting.suspend(w, accountOf(broken, req.Holder.Cluster))
		return
	}
	p.Waiting.joinLine(w)
	if s.Frozen() != NotFrozen {
		return
	}
	if _, ok := p.FormerBlock(req); ok {
		s.news.Woken = append(s.news.Woken, req.Holder)
	}
	if p.fits(w) {
		s.holdRoom(p, w)
	}
}

// fits reports whether there is room for a waiter.
func (p *Pool) fits(w *Waiter) bool {
	if w.request.Exact.IsValid() {
		return p.Index.Free(w.request.Exact)
	}
	largest, ok := p.Index.Largest()
	return ok && w.request.Length >= largest
}

// Withdraw takes a claim off the list of a pool.
func (s *Space) Withdraw(p *Pool, id ledger.ClaimID) {
	w, ok := p.Waiting.Claims[id]
	if !ok {
		return
	}
	s.removeWaiter(p, w)
	if w.held {
		s.Unreserve(w.Last)
	}
}

// removeWaiter takes a waiter off its list. What is held for it stays reserved.
func (s *Space) removeWaiter(p *Pool, w *Waiter) {
	on := w.suspended
	p.Waiting.leaveLine(w)
	p.Waiting.remove(w)
	s.Table.Waiting.Add(-1)
	if w.held {
		w.stop()
	}
	if on != (Account{}) {
		s.unwatch(on)
	}
}

// Rejoin puts a waiter back on the list of its pool, at its old place.
func (s *Space) Rejoin(w *Waiter) {
	p := s.Pool(w.request.Pool)
	if p == nil || p.State != ledger.PoolOpen || s.Table.withdrawn(w) {
		return
	}
	if _, again := p.Waiting.Claims[w.request.Holder.Claim]; again {
		return
	}
	w.held = false
	p.Waiting.add(w)
	p.Waiting.joinLine(w)
	s.Table.Waiting.Add(1)
}

// clearWaiters empties the list of a pool that hands out nothing any more.
func (s *Space) clearWaiters(p *Pool) {
	claims, suspended := p.Waiting.Claims, p.Waiting.suspended
	p.Waiting = waitlist{}
	for on := range suspended {
		s.unwatch(on)
	}
	s.Table.Waiting.Add(-int64(len(claims)))
	for _, w := range claims {
		if w.held {
			w.stop()
			s.Unreserve(w.Last)
		}
	}
}

// offer holds free room of a pool for the waiters in their turn, until none of them
// fits. Of those for an exact prefix only the ones that touch what became free are
// looked at.
func (s *Space) offer(p *Pool, freed netip.Prefix) {
	if len(p.Waiting.Claims) == 0 || s.Frozen() != NotFrozen {
		return
	}
	exact := p.Waiting.touching(freed)
	for {
		w := p.first(exact)
		if w == nil {
			return
		}
		if !s.suspendsOverQuota(p, w) {
			s.holdRoom(p, w)
			exact.fix(w.cluster())
		}
	}
}

// first is the waiter whose turn it is of those that fit, in the lines of the pool and in
// the given one of exact waiters, which it leaves. An exact one that does not fit leaves
// it, too: in the course of an offer nothing becomes free.
func (p *Pool) first(exact *line) *Waiter {
	var w *Waiter
	if largest, ok := p.Index.Largest(); ok {
		w = p.Waiting.next(largest)
	}
	for len(exact.lanes) > 0 && !p.Index.Free(exact.first().request.Exact) {
		exact.remove(exact.first())
	}
	if len(exact.lanes) == 0 || w != nil && p.Waiting.before(w, exact.first()) < 0 {
		return w
	}
	w = exact.first()
	exact.remove(w)
	return w
}

// holdRoom reserves room for a waiter, and has it woken.
func (s *Space) holdRoom(p *Pool, w *Waiter) {
	prefix := w.request.Exact
	if !prefix.IsValid() {
		prefix, _ = p.Index.Find(w.request.Length, w.request.Strategy)
	}
	p.Waiting.leaveLine(w)
	p.Waiting.served(w)
	w.held, w.Last = true, prefix
	s.Reserve(prefix, w)
	s.news.Woken = append(s.news.Woken, w.request.Holder)
	w.turn++
	turn := w.turn
	w.stop = s.Table.After(s.Table.HoldTime, func() { s.expireHold(w, turn) })
}

// expireHold passes on what was held for a claim that did not come. The claim waits
// on, as the youngest.
func (s *Space) expireHold(w *Waiter, turn int) {
	s.Lock()
	defer s.Unlock()
	p := s.Pool(w.request.Pool)
	if s.Gone || p == nil || p.Waiting.Claims[w.request.Holder.Claim] != w || w.turn != turn {
		return
	}
	w.since = s.Table.Now()
	s.releaseHold(p, w)
}

// releaseHold gives up what is held for a waiter, who waits on.
func (s *Space) releaseHold(p *Pool, w *Waiter) {
	w.stop()
	w.held = false
	p.Waiting.joinLine(w)
	s.Unreserve(w.Last)
}

// YieldHold gives up a hold on exactly the prefix that another allocator has bound.
func (s *Space) YieldHold(prefix netip.Prefix) {
	if w := s.reserved[prefix]; w != nil {
		s.releaseHold(s.Pool(w.request.Pool), w)
	}
}

// releaseHoldsIn gives up the holds of a pool that touch a prefix, which was excluded.
func (s *Space) releaseHoldsIn(p *Pool, excluded netip.Prefix) {
	for prefix, w := range s.reserved {
		if w != nil && w.request.Pool == p.ID && prefix.Overlaps(excluded) {
			s.releaseHold(p, w)
		}
	}
}

// ClaimHold hands a claim what is held for it in the pool, if the request is still
// the one that waited: it is free when serve returns, and nobody else is asked
// first. nil: nothing is held.
func (s *Space) ClaimHold(p *Pool, req ledger.Request) *Waiter {
	w, ok := p.Waiting.Claims[req.Holder.Claim]
	if !ok || !w.held {
		return nil
	}
	s.removeWaiter(p, w)
	delete(s.reserved, w.Last)
	s.giveBack(w.Last)
	same := w.request.Exact == req.Exact && (req.Exact.IsValid() || w.request.Length == req.Length)
	if same && p.Index.Free(w.Last) {
		return w
	}
	s.offerAll(w.Last)
	return nil
}
