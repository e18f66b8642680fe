package space

import (
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// ReplaceBy replaces the space by a reading of it. Waiters and their holds stay.
func (s *Space) ReplaceBy(fresh *Space) {
	s.draft.giveUp(s)
	s.draft.skip(fresh.Head)
	fresh.reading.settle(fresh.usage)
	s.Room.endHoldsWithout(fresh.Room.Pools)
	old := s.Room.Pools
	s.Known, s.Head, s.Room.Pools, s.Damage, s.Stale = fresh.Known, fresh.Head, fresh.Room.Pools, fresh.Damage, false
	s.replaceBlocks(fresh)
	s.Table.renote(s.ID, fresh.reading.noted)
	for _, p := range s.Room.Pools {
		p.In = s
		for prefix := range s.Room.reserved.all() {
			p.Index.Take(prefix)
		}
		s.News.Touch(p.ID)
	}
	// All lists are taken over before any is cleared: that ends the watches of accounts that no list needs.
	ended := slices.DeleteFunc(slices.Clone(old), func(was *Pool) bool {
		p := s.Pool(was.ID)
		return p != nil && p.inherits(was)
	})
	for _, was := range ended {
		if s.Pool(was.ID) == nil {
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

// endHoldsWithout ends the holds whose room is not free in a reading of the space: others have got it, or excluded it, or the pool
// is another one by now. Their claims wait on.
func (r *Room) endHoldsWithout(fresh Pools) {
	for prefix, w := range r.reserved.all() {
		if p := fresh.Find(w.request.Pool); p != nil && !p.Index.Free(prefix) {
			r.release(r.Pools.Find(w.request.Pool), w)
		}
	}
}

// inherits takes over what only memory has of a pool that was read again. It reports whether the pool
// takes over the waiting list, too: an open one does, unless it was made again elsewhere.
func (p *Pool) inherits(was *Pool) bool {
	p.Untrusted = was.Untrusted
	if p.State != ledger.PoolOpen || p.CIDR != was.CIDR {
		return false
	}
	p.Waiting = was.Waiting
	return true
}

// replaceBlocks replaces the blocks and the accounts by those of a fresh reading.
func (s *Space) replaceBlocks(fresh *Space) {
	for a, change := range s.usage.until(fresh.usage) {
		s.publish(a, change)
	}
	s.Blocks, s.usage, s.Cooling = fresh.Blocks, fresh.usage, fresh.Cooling
}

// Close removes all pools and blocks of the space, which was retired.
func (s *Space) Close() {
	s.draft.giveUp(s)
	s.Gone = true
	s.Head = store.Head{}
	s.replaceBlocks(NewSpace(s.Table, s.ID))
	s.Table.renote(s.ID, nil)
	for _, p := range slices.Clone(s.Room.Pools) {
		s.removePool(p.ID)
	}
}
