package allocator

import (
	"errors"
	"math/big"
	"slices"
)

// broken says which limit a waiter would break if it were served. The space is told
// when less is held on its account: it asks for that, then looks again, so that no change
// slips between.
func (p *pool) broken(w *waiter, pledged pledges) *QuotaError {
	var watched account
	for {
		_, broken := p.over(w.request, pledged)
		if broken == nil || accountOf(broken, w.request.Holder.Cluster) == watched {
			return broken
		}
		watched = accountOf(broken, w.request.Holder.Cluster)
		p.space.table.quotas.watch(watched, p.space)
	}
}

// unwatch has the space not told of an account on which nobody is parked any more. Else
// accounts of workspaces and pools that are gone would be watched for ever.
func (s *space) unwatch(on account) {
	if !slices.ContainsFunc(s.pools, func(p *pool) bool { return len(p.waiting.parked[on]) > 0 }) {
		s.table.quotas.unwatch(on, s)
	}
}

// parks parks a waiter whose turn it is, if its workspace has what it may have. It is
// woken, so that its claim says what it waits for now.
func (s *space) parks(p *pool, w *waiter) bool {
	broken := p.broken(w, nil)
	if broken == nil {
		return false
	}
	p.waiting.step(w)
	p.waiting.park(w, accountOf(broken, w.request.Holder.Cluster))
	s.news.woken = append(s.news.woken, w.request.Holder)
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
			case accountOf(broken, w.request.Holder.Cluster) == on:
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
	s.news.woken = append(s.news.woken, w.request.Holder)
}

// repark has a waiter wait for another account: that which it is over now.
func (s *space) repark(p *pool, w *waiter, broken *QuotaError) {
	p.waiting.unpark(w)
	p.waiting.park(w, accountOf(broken, w.request.Holder.Cluster))
	s.news.woken = append(s.news.woken, w.request.Holder)
}

// relieve has those look again who wait for less to be held on some accounts.
func (t *table) relieve(accounts []account) {
	for _, to := range accounts {
		for s := range t.quotas.take(to) {
			s.lock()
			s.relieve(to)
			s.unlock()
		}
	}
}
