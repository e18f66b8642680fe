package allocator

import (
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// absorb makes the space what a fresh reading says. What is reserved, and who
// waits, stays.
func (s *space) absorb(fresh *space) {
	old := s.pools
	s.known, s.head, s.pools, s.damage, s.stale = fresh.known, fresh.head, nil, fresh.damage, false
	s.marked = fresh.marked
	s.balance(fresh)
	for _, p := range fresh.pools {
		p.space = s
		for prefix := range s.reserved {
			p.index.Take(prefix)
		}
		s.pools = append(s.pools, p)
		s.touch(p.ID)
	}
	for _, was := range old {
		s.succeed(was)
	}
	for _, p := range s.pools {
		s.table.enlist(p)
		s.offer(p, p.CIDR)
	}
}

// succeed hands the waiting list of a pool that was read again to the new one,
// or ends it.
func (s *space) succeed(was *pool) {
	p := s.pool(was.ID)
	if p != nil {
		p.unseen = was.unseen
	}
	if p != nil && p.State == PoolOpen {
		p.waiting, p.retiring = was.waiting, was.retiring
		return
	}
	if p == nil {
		s.table.strike(was)
		s.news.left = append(s.news.left, was.Pool)
	}
	s.dismiss(was)
}

// close ends the space, which was retired.
func (s *space) close() {
	s.gone = true
	s.head = store.Head{}
	s.balance(newSpace(s.table, s.id))
	for _, p := range slices.Clone(s.pools) {
		s.leave(p)
		s.table.strike(p)
	}
}
