package space

import (
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// ReplaceBy makes the space what a fresh reading says. What is reserved, and who
// waits, stays.
func (s *Space) ReplaceBy(fresh *Space) {
	old := s.Room.Pools
	s.Known, s.Head, s.Room.Pools, s.Damage, s.Stale = fresh.Known, fresh.Head, fresh.Room.Pools, fresh.Damage, false
	s.Marked = fresh.Marked
	s.replaceBlocks(fresh)
	for _, p := range s.Room.Pools {
		p.In = s
		for prefix := range s.Room.reserved {
			p.Index.Take(prefix)
		}
		s.News.Touch(p.ID)
	}
	for _, was := range old {
		p := s.Pool(was.ID)
		if p != nil && p.inherits(was) {
			continue
		}
		if p == nil {
			s.Table.Remove(was)
			s.News.Left = append(s.News.Left, was.Pool)
		}
		s.Room.clear(was)
	}
	for _, p := range s.Room.Pools {
		s.Table.Add(p)
	}
	s.Room.offerAll()
}

// inherits hands what memory alone knows of a pool that was read again to the new one. It reports
// whether that has its waiting list: one that is open.
func (p *Pool) inherits(was *Pool) bool {
	p.Untrusted = was.Untrusted
	if p.State != ledger.PoolOpen {
		return false
	}
	p.Waiting, p.Retiring = was.Waiting, was.Retiring
	return true
}

// replaceBlocks makes the blocks and the accounts what a fresh reading of the space says.
func (s *Space) replaceBlocks(fresh *Space) {
	for a, change := range s.usage.until(fresh.usage) {
		s.publish(a, change)
	}
	s.Blocks, s.usage, s.Cooling = fresh.Blocks, fresh.usage, fresh.Cooling
}

// Close ends the space, which was retired.
func (s *Space) Close() {
	s.Gone = true
	s.Head = store.Head{}
	s.replaceBlocks(NewSpace(s.Table, s.ID))
	for _, p := range slices.Clone(s.Room.Pools) {
		s.RemovePool(p.ID)
	}
}
