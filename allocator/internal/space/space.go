package space

import (
	"math/big"
	"net/netip"
	"slices"
	"sync"
	"unique"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Space is one space in memory: its pools with their free space, whose the blocks are, and the
// claims that wait for room.
//
// The indexes are those of the ledger at the known revision, plus what is
// reserved. Only the holder of the lock touches them: the worker when it places
// and when its transaction is through, the watch when another allocator wrote.
// Nobody holds the lock while waiting for anything.
type Space struct {
	ID    ledger.SpaceID
	Table *Table

	mu       sync.Mutex
	Known    int64      // revision up to which all changes to the space are known
	Head     store.Head // of the space, as of then
	Gone     bool       // retired; what is queued has to look for its pool again
	Pools    []*Pool
	reserved map[netip.Prefix]*Waiter              // taken in the indexes, not in the ledger; for whom, if it is a hold
	owners   map[netip.Prefix]unique.Handle[Owner] // whose each block is
	rivals   map[netip.Prefix][]Owner              // who disputes it
	sums     map[Account]*big.Int                  // what the owners hold of this space
	Cooling  coolingBlocks
	draft    bool   // being read; its sums are not published
	Damage   Damage // nothing is done in the space while there is any
	Stale    bool   // events were passed over; it is about to be read again
	Marked   string // the writer that keeps the waiting list, as the ledger names it; empty: claims do not wait

	Unlocking func()     // called before the lock is let go
	Unlocked  func(News) // called after that, with what is to be told
	news      News
}

// News are what callers outside of the space are told, once its lock is free.
type News struct {
	Woken    []ledger.Holder // that should ask again
	Touched  []ledger.PoolID // whose usage or state is another
	Left     []ledger.Pool   // that are in the ledger no longer
	Drained  []*Pool         // whose last block is gone: they are to be retired
	Relieved []Account       // on which less is held
}

// NewSpace makes a space of which nothing is known. Set Unlocking and Unlocked before its lock is let go.
func NewSpace(t *Table, id ledger.SpaceID) *Space {
	return &Space{
		Table: t, ID: id, reserved: map[netip.Prefix]*Waiter{},
		owners: map[netip.Prefix]unique.Handle[Owner]{}, rivals: map[netip.Prefix][]Owner{}, sums: map[Account]*big.Int{},
	}
}

// Lock takes the space. Nobody holds it while waiting for anything.
func (s *Space) Lock() { s.mu.Lock() }

// Unlock lets go of the space, then tells those who have to know.
func (s *Space) Unlock() {
	s.Unlocking()
	s.news.Drained = s.drained()
	told := s.news
	s.news = News{}
	s.mu.Unlock()
	s.Unlocked(told)
}

// Touch has Changed called for a pool when the lock is let go.
func (s *Space) Touch(id ledger.PoolID) {
	if !slices.Contains(s.news.Touched, id) {
		s.news.Touched = append(s.news.Touched, id)
	}
}

// touchAll touches the pools that a prefix overlaps.
func (s *Space) touchAll(prefix netip.Prefix) {
	for _, p := range s.Pools {
		if p.CIDR.Overlaps(prefix) {
			s.Touch(p.ID)
		}
	}
}

// Pool is a pool of the space; nil: it has none of that ID.
func (s *Space) Pool(id ledger.PoolID) *Pool {
	for _, p := range s.Pools {
		if p.ID == id {
			return p
		}
	}
	return nil
}

// Take marks a prefix as held in every pool that it overlaps.
func (s *Space) Take(prefix netip.Prefix) {
	for _, p := range s.Pools {
		p.Index.Take(prefix)
	}
}

// putBack undoes one take, and offers the room to those who wait for it.
func (s *Space) putBack(prefix netip.Prefix) {
	s.giveBack(prefix)
	s.offerAll(prefix)
}

// giveBack undoes one take.
func (s *Space) giveBack(prefix netip.Prefix) {
	for _, p := range s.Pools {
		p.Index.Put(prefix)
	}
}

// offerAll offers what may have become free to those who wait at any pool.
func (s *Space) offerAll(prefix netip.Prefix) {
	for _, p := range s.Pools {
		if p.CIDR.Overlaps(prefix) {
			s.offer(p, prefix)
		}
	}
}

// Reserve takes a prefix that is free now, for a waiting claim or, if w is nil,
// for a transaction.
func (s *Space) Reserve(prefix netip.Prefix, w *Waiter) {
	s.reserved[prefix] = w
	s.Take(prefix)
}

// Unreserve gives a reserved prefix back.
func (s *Space) Unreserve(prefix netip.Prefix) {
	delete(s.reserved, prefix)
	s.putBack(prefix)
}

// Committed turns a reservation into a block, committed at the revision.
func (s *Space) Committed(by Owner, prefix netip.Prefix, revision int64) {
	if revision <= s.Known { // the watch was faster, and has taken it too
		s.Unreserve(prefix)
		return
	}
	delete(s.reserved, prefix)
	s.SetOwners(prefix, owners{first: unique.Make(by)})
}

// Lacks reports whether the ledger, as known here, has no block at exactly this
// prefix of a pool. It may report false although there is none.
func (s *Space) Lacks(p *Pool, prefix netip.Prefix) bool {
	_, reserved := s.reserved[prefix]
	return reserved || p.Index.Free(prefix)
}

// Removed returns the prefix of a block that was removed at the revision.
func (s *Space) Removed(prefix netip.Prefix, revision int64) {
	if revision > s.Known {
		s.removeBlock(prefix)
	}
}

// drained returns the touched pools that are to be retired now.
func (s *Space) drained() []*Pool {
	var drained []*Pool
	for _, id := range s.news.Touched {
		if p := s.Pool(id); p != nil && p.State == ledger.PoolDraining && !p.Retiring && p.Held() == 0 {
			p.Retiring = true
			drained = append(drained, p)
		}
	}
	return drained
}

// AddPool adds a pool to the space. What other pools of the space hold is held in
// the new one too: every block of a space lies in one of its pools.
func (s *Space) AddPool(record ledger.Pool) *Pool {
	p := newPool(s, record)
	for prefix, times := range s.held() {
		for range times {
			p.Index.Take(prefix)
		}
	}
	for prefix, c := range s.Cooling.Blocks {
		p.cool(prefix, c)
	}
	s.Pools = append(s.Pools, p)
	s.Touch(p.ID)
	return p
}

// held counts how often each prefix is held in the space.
func (s *Space) held() map[netip.Prefix]int {
	most := map[netip.Prefix]int{}
	for _, p := range s.Pools {
		times := map[netip.Prefix]int{}
		for prefix := range p.Index.Held() {
			times[prefix]++
			most[prefix] = max(most[prefix], times[prefix])
		}
	}
	return most
}

// RemovePool removes a pool from the space, and those who waited for it.
func (s *Space) RemovePool(p *Pool) {
	s.clearWaiters(p)
	s.Pools = slices.DeleteFunc(s.Pools, func(q *Pool) bool { return q == p })
	s.news.Left = append(s.news.Left, p.Pool)
	s.Touch(p.ID)
}

// UpdatePool replaces a pool's record, and brings its exclusions in line with it.
func (s *Space) UpdatePool(p *Pool, record ledger.Pool) {
	old := p.Excluded
	s.Unfreeze(func() { p.Pool = record })
	s.Touch(p.ID)
	if record.State != ledger.PoolOpen {
		s.clearWaiters(p)
	}
	for _, x := range record.Excluded {
		p.Index.Exclude(x)
		s.releaseHoldsIn(p, x)
	}
	for _, x := range old {
		if !slices.Contains(record.Excluded, x) && p.Index.Include(x) {
			s.offer(p, x)
		}
	}
}

// Large counts the blocks of a space, and lists the pools that have more than a page of
// them in their windows.
func (s *Space) Large(page int) (blocks int, pools []ledger.Pool) {
	s.Lock()
	defer s.mu.Unlock()
	for _, p := range s.Pools {
		if p.Index.Blocks() > page {
			pools = append(pools, p.Pool)
		}
	}
	return len(s.owners), pools
}

// Reconcile has the holder woken whose block is in dispute no longer.
func (s *Space) Reconcile(r store.Record) {
	if !r.Disputed {
		s.news.Woken = append(s.news.Woken, r.Block(r.Holdings[0]).Holder)
	}
}

// OthersWait reports whether claims wait for room whose list is not here, or not complete.
func (s *Space) OthersWait() bool { return s.Marked != "" && s.Marked != s.Table.Writer }

// Knows reports whether the space is known as of a revision.
func (s *Space) Knows(revision int64) bool {
	s.Lock()
	defer s.Unlock()
	return s.Known >= revision
}

// CountCooling counts the blocks that cool. The lock must not be held.
func (s *Space) CountCooling() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.Cooling.Blocks)
}

// CountUnreadable counts the keys that cannot be read. The lock must not be held.
func (s *Space) CountUnreadable() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.Damage)
}

// NewDraft makes a space that is being read: its sums are not published, nobody has to be told
// of it, and another one is replaced by it.
func NewDraft(t *Table, id ledger.SpaceID) *Space {
	s := NewSpace(t, id)
	s.draft = true
	return s
}
