package space

import (
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// View shows a space to a plan: as the ledger has it, and with the prefixes that the draft has taken. It cannot change
// anything. It is valid while the space's lock is held.
type View struct {
	s     *Space
	Keys  store.SpaceKeys // of the space
	Limit int             // how many operations a transaction has at most
	next  func(least int64) int64
}

// View returns the view for a plan. next returns the count of the head that the plan's transaction puts, and never less
// than its argument.
func (s *Space) View(keys store.SpaceKeys, limit int, next func(least int64) int64) View {
	return View{s: s, Keys: keys, Limit: limit, next: next}
}

// Space returns the ID of the space.
func (v View) Space() ledger.SpaceID { return v.s.ID }

// Head returns the head of the space.
func (v View) Head() store.Head { return v.s.Head }

// Next returns the count of the head that the plan's transaction puts, and never less than the argument.
func (v View) Next(least int64) int64 { return v.next(least) }

// Table returns the memory that concerns more than one space.
func (v View) Table() *Table { return v.s.Table }

// Pool returns a pool of the space; nil: there is none.
func (v View) Pool(id ledger.PoolID) *Pool { return v.s.Pool(id) }

// Pools returns the pools of the space.
func (v View) Pools() Pools { return v.s.Room.Pools }

// Has reports whether there is a block at exactly this prefix.
func (v View) Has(prefix netip.Prefix) bool { return v.s.Blocks.has(prefix) }

// Cooled returns the cooling block at exactly this prefix; nil: there is none.
func (v View) Cooled(prefix netip.Prefix) *Cooled { return v.s.Cooling.Blocks[prefix] }

// Pending returns how many addresses the draft is about to take on the accounts of a request.
func (v View) Pending(r ledger.Request) Pending { return v.s.draft.Pending(r) }
