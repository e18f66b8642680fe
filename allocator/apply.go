package allocator

import "github.com/kcp-ipam/ipam/allocator/internal/store"

// replace brings the record of a pool up to date, or a new pool in.
func (s *space) replace(record Pool) {
	if p := s.pool(record.ID); p != nil {
		s.update(p, record)
		return
	}
	s.table.enlist(s.join(record))
}

// apply brings one event into the space. A block whose value cannot be read is taken,
// and nobody's.
func (s *space) apply(e store.Entry) {
	switch {
	case e.Kind == store.BlockKey && !e.Prefix.IsValid():
	case e.Kind == store.BlockKey && e.Created:
		s.take(e.Prefix)
		s.evict(e.Prefix)
		s.note(e)
	case e.Kind == store.BlockKey && e.Put:
		s.note(e)
	case e.Kind == store.BlockKey && !e.Put:
		s.disown(e.Prefix)
	case e.Kind == store.WaitersKey:
		s.marked = e.Writer
	case e.Kind == store.HeadKey && e.Put:
		s.head = e.Head
	case e.Kind == store.HeadKey && s.head.Revision > 0:
		s.close()
	case e.Kind == store.PoolKey && !e.Put:
		if p := s.pool(e.Pool); p != nil {
			s.leave(p)
			s.table.strike(p)
		}
	}
}
