package allocator

import "github.com/kcp-ipam/ipam/allocator/internal/space"

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
	if checkRequest(req) == nil {
		a.table.Visit(req.Pool, func(p *space.Pool) { p.In.Room.Wait(p, req) })
	}
}

// Withdraw takes a claim off all waiting lists. What was held for it is offered
// to the next.
func (a *Allocator) Withdraw(id ClaimID) {
	if a.table.WaitsAnywhere(id) {
		a.WaitOnly(id)
	}
}

// WaitOnly takes a claim off the waiting lists of all pools but these: of the others, it
// would take none of what is held for it.
func (a *Allocator) WaitOnly(id ClaimID, at ...PoolID) {
	for _, pool := range a.table.WaitOnly(id, at) {
		a.table.Visit(pool, func(p *space.Pool) { p.In.Room.Withdraw(p, id) })
	}
}

// Waiting is the number of claims that wait for room in a pool, those that room
// is held for included.
func (a *Allocator) Waiting(id PoolID) (n int) {
	a.table.Visit(id, func(p *space.Pool) { n = len(p.Waiting.Claims) })
	return n
}
