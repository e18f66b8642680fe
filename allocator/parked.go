package allocator

import (
	"errors"
	"math/big"
	"slices"
)

// broken says which limit a waiter would break if it were served. The space is told
// when less is held: it asks for that before it looks, so that no change slips between.
func (p *pool) broken(w *waiter, pledged pledges) *QuotaError {
	if w.request.limited() {
		p.space.alloc.quotas.watch(w.request.classAccount(), p.space)
	}
	if w.request.Limits.Pool != nil {
		p.space.alloc.quotas.watch(w.request.poolAccount(), p.space)
	}
	_, broken := p.over(w.request, pledged)
	return broken
}

// parks parks a waiter whose turn it is, if its workspace has what it may have. It is
// woken, so that its claim says what it waits for now.
func (s *space) parks(p *pool, w *waiter) bool {
	broken := p.broken(w, nil)
	if broken == nil {
		return false
	}
	p.waiting.step(w)
	p.waiting.park(w, broken.account(w.request.Holder.Cluster))
	s.woken = append(s.woken, w.request.Holder)
	return true
}

// passOver takes a claim that was refused for its quota out of the way of others. What
// is held for it is offered to the next.
func (s *space) passOver(r Request, refusal error) {
	p := s.pool(r.Pool)
	if _, over := errors.AsType[*QuotaError](refusal); over && p != nil {
		s.withdraw(p, r.Holder.Claim)
	}
}

// relieve has those wait for room again who are parked on an account, oldest first, as
// far as the limit goes now. They are woken whether there is room or not: what they wait
// for has changed.
func (s *space) relieve(on account) {
	for _, p := range s.pools {
		pledged := pledges{on: new(big.Int)}
		var least *big.Int // that was too much for this account
		for _, w := range slices.Clone(p.waiting.parked[on]) {
			wanted := p.wanted(w.request)
			if least != nil && wanted.Cmp(least) >= 0 {
				continue
			}
			switch broken := p.broken(w, pledged); {
			case broken == nil:
				pledged[on].Add(pledged[on], wanted)
				s.unpark(p, w)
			case broken.account(w.request.Holder.Cluster) == on:
				least = wanted
			default:
				s.repark(p, w, broken)
			}
		}
	}
}

// unpark puts a waiter back into its line, holds room for it if there is any, and has
// it woken in any case.
func (s *space) unpark(p *pool, w *waiter) {
	p.waiting.unpark(w)
	p.waiting.line(w)
	if s.frozen() == thawed && p.fits(w) {
		s.hold(p, w)
		return
	}
	s.woken = append(s.woken, w.request.Holder)
}

// repark has a waiter wait for another account: that which it is over now.
func (s *space) repark(p *pool, w *waiter, broken *QuotaError) {
	p.waiting.unpark(w)
	p.waiting.park(w, broken.account(w.request.Holder.Cluster))
	s.woken = append(s.woken, w.request.Holder)
}
