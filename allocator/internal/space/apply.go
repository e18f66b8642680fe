package space

import (
	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// Apply brings a key of the ledger into the space. A block whose value cannot be read is taken, and
// has no owner.
func (s *Space) Apply(e *store.Entry) {
	was := s.Damage.note(e)
	switch {
	case e.Put && e.Damage != nil:
		s.Table.Logger.Error("a key of the ledger cannot be read, and its space stops", "space", s.ID, "error", e.Damage)
	case was && len(s.Damage) == 0:
		s.Table.Logger.Info("all keys of the space can be read again", "space", s.ID)
		s.Room.offerAll()
	}
	switch {
	case e.Kind == store.PoolKey && e.Put && e.Damage == nil:
		s.PutPool(*e.Registered)
	case e.Kind == store.PoolKey && !e.Put:
		s.RemovePool(e.Pool)
	case e.Kind == store.HeadKey && e.Put:
		s.Head = e.Head
	case e.Kind == store.HeadKey && s.Head.Revision > 0:
		s.Close()
	case e.Kind == store.BlockKey && e.Prefix.IsValid():
		s.applyBlock(e)
	}
}

func (s *Space) applyBlock(e *store.Entry) {
	if !e.Put {
		s.remove(e.Prefix)
		return
	}
	if e.Created {
		s.Add(e.Prefix)
	}
	if e.Damage != nil {
		s.Blocks.hide(e.Prefix)
		return
	}
	s.note(e.Prefix, e.Block)
}
