package space

import (
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// ReplaceBy makes the space what a fresh reading says. What is reserved, and who
// waits, stays.
func (s *Space) ReplaceBy(fresh *Space) {
	old := s.Pools
	s.Known, s.Head, s.Pools, s.Damage, s.Stale = fresh.Known, fresh.Head, nil, fresh.Damage, false
	s.Marked = fresh.Marked
	s.replaceUsage(fresh)
	for _, p := range fresh.Pools {
		p.In = s
		for prefix := range s.reserved {
			p.Index.Take(prefix)
		}
		s.Pools = append(s.Pools, p)
		s.Touch(p.ID)
	}
	for _, was := range old {
		s.inheritWaiters(was)
	}
	for _, p := range s.Pools {
		s.Table.Add(p)
		s.offer(p, p.CIDR)
	}
}

// inheritWaiters hands the waiting list of a pool that was read again to the new one,
// or ends it.
func (s *Space) inheritWaiters(was *Pool) {
	p := s.Pool(was.ID)
	if p != nil {
		p.Untrusted = was.Untrusted
	}
	if p != nil && p.State == ledger.PoolOpen {
		p.Waiting, p.Retiring = was.Waiting, was.Retiring
		return
	}
	if p == nil {
		s.Table.Remove(was)
		s.news.Left = append(s.news.Left, was.Pool)
	}
	s.clearWaiters(was)
}

// Close ends the space, which was retired.
func (s *Space) Close() {
	s.Gone = true
	s.Head = store.Head{}
	s.replaceUsage(NewSpace(s.Table, s.ID))
	for _, p := range slices.Clone(s.Pools) {
		s.RemovePool(p)
		s.Table.Remove(p)
	}
}
