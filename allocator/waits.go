package allocator

import (
	"errors"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Waits is the Allocator's view of the waiting lists. They are in memory only. It is safe for concurrent use.
type Waits struct{ a *Allocator }

// Waits returns the operations on the waiting lists.
func (a *Allocator) Waits() Waits { return Waits{a} }

// Add puts a claim on the waiting list of a pool. When there is room for it, maybe at once, Wake is called, and the
// room is held for HoldTime. A claim may wait at several pools, once at each: another call replaces the request. For an
// address space that has no block yet, the claim waits at the pool of that space. The wait ends with a Bind that
// succeeds, with Release or with Withdraw. It also ends, and Wake is called, when the pool drains or goes, or if the
// pool has done so before. A claim does not wait at a pool that can never have a block of that length.
//
// A claim that a limit of its request stops is passed over until its workspace holds less. It is woken then, unless
// older claims may have all that the limit leaves.
func (w Waits) Add(req ledger.Request) {
	if checkRequest(req) != nil {
		return
	}
	if _, there := w.a.table.Find(req.Pool); !there && req.Begins != nil {
		req.Pool, req.Begins = req.Begins.Of, nil
	}
	if !w.a.table.Visit(req.Pool, func(p *space.Pool) { p.In.Room.Wait(p, req) }) {
		w.a.options.Wake(req.Holder)
	}
}

// Withdraw removes a claim from all waiting lists. Room that was held for it is offered
// to the next claim.
func (w Waits) Withdraw(id ledger.ClaimID) {
	if w.a.table.Waits.Has(id) {
		w.KeepOnly(id)
	}
}

// KeepOnly removes a claim from the waiting lists of all pools but these. Room that was held for it in the other pools
// is offered to the next claim.
func (w Waits) KeepOnly(id ledger.ClaimID, at ...ledger.PoolID) {
	for _, pool := range w.a.table.Waits.KeepOnly(id, at) {
		w.a.table.Visit(pool, func(p *space.Pool) { p.In.Room.Withdraw(p, id) })
	}
}

// leave removes a claim from the waiting list of a pool, if it waits there for another block than it asks for now. Room
// that is held for it is offered to the next claim.
func (w Waits) leave(r ledger.Request) {
	if !w.a.table.Waits.Has(r.Holder.Claim) {
		return
	}
	w.a.table.Visit(r.Pool, func(p *space.Pool) {
		if !p.Waits(r) {
			p.In.Room.Withdraw(p, r.Holder.Claim)
		}
	})
}

// makeWay takes a claim off the waiting list of its pool, if a quota has refused the claim. Room that is held for it is
// offered to the next claim.
func (w Waits) makeWay(r ledger.Request, refusal error) {
	if _, over := errors.AsType[*ledger.QuotaError](refusal); over {
		w.a.table.Visit(r.Pool, func(p *space.Pool) { p.In.Room.Withdraw(p, r.Holder.Claim) })
	}
}
