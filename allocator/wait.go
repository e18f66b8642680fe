package allocator

import "github.com/kcp-ipam/ipam/allocator/internal/space"

// Wait puts a claim on the waiting list of a pool. When there is room for it, maybe
// at once, Wake is called, and the room is held for HoldTime. A claim may wait at
// several pools. At each it waits once: another call replaces the request. The list is
// in memory only. The wait ends with a Bind that succeeds, with Release, with
// Withdraw, or with the pool. For a pool that is unknown or draining, or cannot have a
// block of that length, Wait does nothing.
//
// A claim that a limit of its request stops is passed over until its workspace holds
// less. It is woken then, unless older claims may have all that the limit leaves.
func (a *Allocator) Wait(req Request) {
	if checkRequest(req) == nil {
		a.table.Visit(req.Pool, func(p *space.Pool) { p.In.Room.Wait(p, req) })
	}
}

// Withdraw removes a claim from all waiting lists. Room that was held for it is offered
// to the next claim.
func (a *Allocator) Withdraw(id ClaimID) {
	if a.table.WaitsAnywhere(id) {
		a.WaitOnly(id)
	}
}

// WaitOnly removes a claim from the waiting lists of all pools but these. Room of the others that
// was held for it is offered to the next claim.
func (a *Allocator) WaitOnly(id ClaimID, at ...PoolID) {
	for _, pool := range a.table.WaitOnly(id, at) {
		a.table.Visit(pool, func(p *space.Pool) { p.In.Room.Withdraw(p, id) })
	}
}

// Waiting is the number of claims that wait for room in a pool, including those with a
// hold.
func (a *Allocator) Waiting(id PoolID) (n int) {
	a.table.Visit(id, func(p *space.Pool) { n = len(p.Waiting.Claims) })
	return n
}
