package space

import (
	"errors"
	"math/big"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// broken says which limit a waiter would break if it were served. The space is told
// when less is held on its account: it asks for that, then looks again, so that no change
// slips between.
func (p *Pool) broken(w *Waiter, pledged Pending) *ledger.QuotaError {
	var watched Account
	for {
		_, broken := p.Over(w.request, pledged)
		if broken == nil || accountOf(broken, w.request.Holder.Cluster) == watched {
			return broken
		}
		watched = accountOf(broken, w.request.Holder.Cluster)
		p.In.Table.Quotas.watch(watched, p.In)
	}
}

// unwatch has the space not told of an account on which nobody is suspended any more. Else
// accounts of workspaces and pools that are gone would be watched for ever.
func (s *Space) unwatch(on Account) {
	if !slices.ContainsFunc(s.Pools, func(p *Pool) bool { return len(p.Waiting.suspended[on]) > 0 }) {
		s.Table.Quotas.unwatch(on, s)
	}
}

// suspendsOverQuota suspends a waiter whose turn it is, if its workspace has what it may have. It is
// woken, so that its claim says what it waits for now.
func (s *Space) suspendsOverQuota(p *Pool, w *Waiter) bool {
	broken := p.broken(w, nil)
	if broken == nil {
		return false
	}
	p.Waiting.leaveLine(w)
	p.Waiting.suspend(w, accountOf(broken, w.request.Holder.Cluster))
	s.news.Woken = append(s.news.Woken, w.request.Holder)
	return true
}

// WithdrawOverQuota takes a claim that was refused for its quota out of the way of others. What
// is held for it is offered to the next.
func (s *Space) WithdrawOverQuota(r ledger.Request, refusal error) {
	p := s.Pool(r.Pool)
	if _, over := errors.AsType[*ledger.QuotaError](refusal); over && p != nil {
		s.Withdraw(p, r.Holder.Claim)
	}
}

// requeueSuspended has those wait for room again who are suspended on an account, oldest first, as
// far as the limit goes now. They are woken whether there is room or not: what they wait
// for has changed.
func (s *Space) requeueSuspended(on Account) {
	for _, p := range s.Pools {
		pledged := Pending{on: new(big.Int)}
		var least *big.Int // that was too much for this account
		for _, w := range slices.Clone(p.Waiting.suspended[on]) {
			wanted := p.wanted(w.request)
			if least != nil && wanted.Cmp(least) >= 0 {
				continue
			}
			switch broken := p.broken(w, pledged); {
			case broken == nil:
				pledged[on].Add(pledged[on], wanted)
				s.resume(p, w)
			case accountOf(broken, w.request.Holder.Cluster) == on:
				least = wanted
			default:
				s.suspendAnew(p, w, broken)
			}
		}
	}
}

// resume puts a waiter back into its line, holds room for it if there is any, and has
// it woken in any case.
func (s *Space) resume(p *Pool, w *Waiter) {
	p.Waiting.unsuspend(w)
	p.Waiting.joinLine(w)
	if s.Frozen() == NotFrozen && p.fits(w) {
		s.holdRoom(p, w)
		return
	}
	s.news.Woken = append(s.news.Woken, w.request.Holder)
}

// suspendAnew has a waiter wait for another account: that which it is over now.
func (s *Space) suspendAnew(p *Pool, w *Waiter, broken *ledger.QuotaError) {
	p.Waiting.unsuspend(w)
	p.Waiting.suspend(w, accountOf(broken, w.request.Holder.Cluster))
	s.news.Woken = append(s.news.Woken, w.request.Holder)
}

// Relieve has those look again who wait for less to be held on some accounts.
func (t *Table) Relieve(accounts []Account) {
	for _, to := range accounts {
		for s := range t.Quotas.take(to) {
			s.Lock()
			s.requeueSuspended(to)
			s.Unlock()
		}
	}
}
