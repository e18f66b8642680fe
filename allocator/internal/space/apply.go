package space

import (
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// PutPool brings the record of a pool up to date, or a new pool in.
func (s *Space) PutPool(record ledger.Pool) {
	if p := s.Pool(record.ID); p != nil {
		s.UpdatePool(p, record)
		return
	}
	s.Table.Add(s.AddPool(record))
}

// Apply brings one event into the space. A block whose value cannot be read is taken,
// and nobody's.
func (s *Space) Apply(e store.Entry) {
	switch {
	case e.Kind == store.BlockKey && !e.Prefix.IsValid():
	case e.Kind == store.BlockKey && e.Created:
		s.Take(e.Prefix)
		s.YieldHold(e.Prefix)
		s.Note(e)
	case e.Kind == store.BlockKey && e.Put:
		s.Note(e)
	case e.Kind == store.BlockKey && !e.Put:
		s.removeBlock(e.Prefix)
	case e.Kind == store.WaitersKey:
		s.Marked = e.Writer
	case e.Kind == store.HeadKey && e.Put:
		s.Head = e.Head
	case e.Kind == store.HeadKey && s.Head.Revision > 0:
		s.Close()
	case e.Kind == store.PoolKey && !e.Put:
		if p := s.Pool(e.Pool); p != nil {
			s.RemovePool(p)
			s.Table.Remove(p)
		}
	}
}
