package space

import (
	"math/big"
	"slices"
)

// unwatch ends the room's watch of an account, unless a waiter is still suspended on it. Else the
// accounts of workspaces and pools that are gone would be watched for ever.
func (r *Room) unwatch(on Account) {
	if !slices.ContainsFunc(r.Pools, func(p *Pool) bool { return p.Waiting.suspended[on] != nil }) {
		r.table.Quotas.unwatch(on, r)
	}
}

// requeue puts waiters that are suspended on an account back into their lines, oldest first,
// until the limit is reached by what is held for them. It wakes them whether there is room or not,
// because the reason for which they wait has changed.
func (r *Room) requeue(on Account) {
	r.lock.Lock()
	defer r.lock.Unlock()
	for _, p := range r.Pools {
		pledged := Pending{on: new(big.Int)}
		var least *big.Int // the smallest request that was too large for this account
		for _, w := range p.Waiting.suspendedOn(on) {
			wanted := p.wanted(w.request)
			if least != nil && wanted.Cmp(least) >= 0 {
				continue
			}
			switch broken := p.broken(w, pledged); {
			case broken == nil:
				if r.resume(p, w); w.held {
					pledged[on].Add(pledged[on], wanted)
				}
			case accountOf(broken, w.cluster()) == on:
				least = wanted
			default:
				p.Waiting.suspend(w, accountOf(broken, w.cluster()))
				r.news.wake(&w.request.Holder)
			}
		}
	}
}

// resume holds room for a waiter if there is any, else puts it back into its line. It wakes the
// waiter in any case.
func (r *Room) resume(p *Pool, w *Waiter) {
	if r.Pools.Frozen() == NotFrozen && p.fits(w) {
		r.hold(p, w)
		return
	}
	p.Waiting.requeue(w)
	r.news.wake(&w.request.Holder)
}

// Relieve requeues the waiters that are suspended on some accounts, on which less is held now.
func (t *Table) Relieve(accounts []Account) {
	for _, to := range accounts {
		for r := range t.Quotas.take(to) {
			r.requeue(to)
		}
	}
}
