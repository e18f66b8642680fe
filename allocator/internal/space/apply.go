package space

import (
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Apply brings the changes of one transaction into memory. After the start, changes of blocks and heads reach memory in
// no other way. Apply gives up the draft first: the transaction has made the changes of the draft.
func (s *Space) Apply(entries []*store.Entry) {
	drafted := s.draft.giveUp(s)
	slices.SortStableFunc(entries, poolsFirst)
	for _, e := range entries {
		s.apply(e)
	}
	for _, t := range drafted {
		if !s.Blocks.has(t.prefix) {
			s.Room.freed = append(s.Room.freed, t.prefix)
		}
	}
	s.Room.offerFreed()
}

// poolsFirst orders the records of pools before the blocks of these pools.
func poolsFirst(a, b *store.Entry) int {
	rank := func(e *store.Entry) int {
		if e.Kind == store.PoolKey && e.Put {
			return 0
		}
		return 1
	}
	return rank(a) - rank(b)
}

// ReadKey brings a key into the space, when the ledger is read at the start.
func (s *Space) ReadKey(e *store.Entry) { s.apply(e) }

// apply brings a key of the ledger into the space. A block whose value cannot be read takes its prefix, and has no
// owner.
func (s *Space) apply(e *store.Entry) {
	if e.Put && e.Damage != nil {
		s.Damage.note(e)
		s.Table.Logger.Error("a key of the ledger cannot be read, and its space stops", "space", s.ID, "error", e.Damage)
	}
	switch {
	case e.Kind == store.PoolKey && e.Put && e.Damage == nil:
		s.putPool(*e.Registered)
	case e.Kind == store.PoolKey && !e.Put:
		if e.Retired {
			s.Table.Retired.Add(e.Pool) // before Remove: a caller that does not find the pool finds out why
		}
		s.removePool(e.Pool)
	case e.Kind == store.HeadKey && e.Put:
		s.Head = e.Head
	case e.Kind == store.HeadKey && s.Head.Revision > 0:
		s.close()
	case e.Kind == store.BlockKey && e.Prefix.IsValid():
		s.applyBlock(e)
	}
}

func (s *Space) applyBlock(e *store.Entry) {
	s.Table.noteBlock(ledger.Position{Space: s.ID, Prefix: e.Prefix}, e.Block)
	switch had := s.Blocks.has(e.Prefix); {
	case e.Put && !had:
		s.Room.endHolds(e.Prefix, e.Block)
		s.Room.Pools.take(e.Prefix)
	case !e.Put && had:
		s.remove(e.Prefix)
	}
	switch {
	case !e.Put:
	case e.Damage != nil:
		s.Blocks.hide(e.Prefix)
	default:
		s.note(e.Prefix, e.Block)
	}
}
