package allocator

import (
	"math/big"
	"net/netip"
	"slices"
	"sync"
	"unique"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// space is one space in memory: its pools with their free space, whose the blocks are, and the
// claims that wait for room.
//
// The indexes are those of the ledger at the known revision, plus what is
// reserved. Only the holder of the lock touches them: the worker when it places
// and when its transaction is through, the watch when another allocator wrote.
// Nobody holds the lock while waiting for anything.
type space struct {
	id    SpaceID
	table *table

	mu       sync.Mutex
	known    int64      // revision up to which all changes to the space are known
	head     store.Head // of the space, as of then
	gone     bool       // retired; what is queued has to look for its pool again
	pools    []*pool
	reserved map[netip.Prefix]*waiter              // taken in the indexes, not in the ledger; for whom, if it is a hold
	owners   map[netip.Prefix]unique.Handle[owner] // whose each block is
	rivals   map[netip.Prefix][]owner              // who disputes it
	sums     map[account]*big.Int                  // what the owners hold of this space
	cooling  cooling
	draft    bool   // being read; its sums are not published
	damage   damage // nothing is done in the space while there is any
	stale    bool   // events were passed over; it is about to be read again
	marked   string // the writer that keeps the waiting list, as the ledger names it; empty: claims do not wait

	unlocking func()     // called before the lock is let go
	unlocked  func(news) // called after that, with what is to be told
	news      news
}

// news are what callers outside of the space are told, once its lock is free.
type news struct {
	woken    []Holder  // that should ask again
	touched  []PoolID  // whose usage or state is another
	left     []Pool    // that are in the ledger no longer
	drained  []*pool   // whose last block is gone: they are to be retired
	relieved []account // on which less is held
}

func newSpace(t *table, id SpaceID) *space {
	return &space{
		table: t, id: id, reserved: map[netip.Prefix]*waiter{},
		owners: map[netip.Prefix]unique.Handle[owner]{}, rivals: map[netip.Prefix][]owner{}, sums: map[account]*big.Int{},
	}
}

func (s *space) lock() { s.mu.Lock() }

// unlock lets go of the space, then tells those who have to know.
func (s *space) unlock() {
	s.unlocking()
	s.news.drained = s.drained()
	told := s.news
	s.news = news{}
	s.mu.Unlock()
	s.unlocked(told)
}

// touch has Changed called for a pool when the lock is let go.
func (s *space) touch(id PoolID) {
	if !slices.Contains(s.news.touched, id) {
		s.news.touched = append(s.news.touched, id)
	}
}

// touchAll touches the pools that a prefix overlaps.
func (s *space) touchAll(prefix netip.Prefix) {
	for _, p := range s.pools {
		if p.CIDR.Overlaps(prefix) {
			s.touch(p.ID)
		}
	}
}

func (s *space) pool(id PoolID) *pool {
	for _, p := range s.pools {
		if p.ID == id {
			return p
		}
	}
	return nil
}

// take marks a prefix as held in every pool that it overlaps.
func (s *space) take(prefix netip.Prefix) {
	for _, p := range s.pools {
		p.index.Take(prefix)
	}
}

// put undoes one take, and offers the room to those who wait for it.
func (s *space) put(prefix netip.Prefix) {
	s.give(prefix)
	s.offerAll(prefix)
}

// give undoes one take.
func (s *space) give(prefix netip.Prefix) {
	for _, p := range s.pools {
		p.index.Put(prefix)
	}
}

// offerAll offers what may have become free to those who wait at any pool.
func (s *space) offerAll(prefix netip.Prefix) {
	for _, p := range s.pools {
		if p.CIDR.Overlaps(prefix) {
			s.offer(p, prefix)
		}
	}
}

// reserve takes a prefix that is free now, for a waiting claim or, if w is nil,
// for a transaction.
func (s *space) reserve(prefix netip.Prefix, w *waiter) {
	s.reserved[prefix] = w
	s.take(prefix)
}

// unreserve gives a reserved prefix back.
func (s *space) unreserve(prefix netip.Prefix) {
	delete(s.reserved, prefix)
	s.put(prefix)
}

// bound turns a reservation into a block, committed at the revision.
func (s *space) bound(by owner, prefix netip.Prefix, revision int64) {
	if revision <= s.known { // the watch was faster, and has taken it too
		s.unreserve(prefix)
		return
	}
	delete(s.reserved, prefix)
	s.own(prefix, owners{first: unique.Make(by)})
}

// lacks reports whether the ledger, as known here, has no block at exactly this
// prefix of a pool. It may report false although there is none.
func (s *space) lacks(p *pool, prefix netip.Prefix) bool {
	_, reserved := s.reserved[prefix]
	return reserved || p.index.Free(prefix)
}

// freed returns the prefix of a block that was removed at the revision.
func (s *space) freed(prefix netip.Prefix, revision int64) {
	if revision > s.known {
		s.disown(prefix)
	}
}

// drained returns the touched pools that are to be retired now.
func (s *space) drained() []*pool {
	var drained []*pool
	for _, id := range s.news.touched {
		if p := s.pool(id); p != nil && p.State == PoolDraining && !p.retiring && p.held() == 0 {
			p.retiring = true
			drained = append(drained, p)
		}
	}
	return drained
}

// join adds a pool to the space. What other pools of the space hold is held in
// the new one too: every block of a space lies in one of its pools.
func (s *space) join(record Pool) *pool {
	p := newPool(s, record)
	for prefix, times := range s.held() {
		for range times {
			p.index.Take(prefix)
		}
	}
	for prefix, c := range s.cooling.blocks {
		p.cool(prefix, c)
	}
	s.pools = append(s.pools, p)
	s.touch(p.ID)
	return p
}

// held counts how often each prefix is held in the space.
func (s *space) held() map[netip.Prefix]int {
	most := map[netip.Prefix]int{}
	for _, p := range s.pools {
		times := map[netip.Prefix]int{}
		for prefix := range p.index.Held() {
			times[prefix]++
			most[prefix] = max(most[prefix], times[prefix])
		}
	}
	return most
}

// leave removes a pool from the space, and those who waited for it.
func (s *space) leave(p *pool) {
	s.dismiss(p)
	s.pools = slices.DeleteFunc(s.pools, func(q *pool) bool { return q == p })
	s.news.left = append(s.news.left, p.Pool)
	s.touch(p.ID)
}

// update replaces a pool's record, and brings its exclusions in line with it.
func (s *space) update(p *pool, record Pool) {
	old := p.Excluded
	s.thaw(func() { p.Pool = record })
	s.touch(p.ID)
	if record.State != PoolOpen {
		s.dismiss(p)
	}
	for _, x := range record.Excluded {
		p.index.Exclude(x)
		s.vacate(p, x)
	}
	for _, x := range old {
		if !slices.Contains(record.Excluded, x) && p.index.Include(x) {
			s.offer(p, x)
		}
	}
}

// large counts the blocks of a space, and lists the pools that have more than a page of
// them in their windows.
func (s *space) large(page int) (blocks int, pools []Pool) {
	s.lock()
	defer s.mu.Unlock()
	for _, p := range s.pools {
		if p.index.Blocks() > page {
			pools = append(pools, p.Pool)
		}
	}
	return len(s.owners), pools
}

// reconcile has the holder woken whose block is in dispute no longer.
func (s *space) reconcile(r store.Record) {
	if !r.Disputed {
		s.news.woken = append(s.news.woken, r.Block(r.Holdings[0]).Holder)
	}
}

// othersWait reports whether claims wait for room whose list is not here, or not complete.
func (s *space) othersWait() bool { return s.marked != "" && s.marked != s.table.Writer }

// knows reports whether the space is known as of a revision.
func (s *space) knows(revision int64) bool {
	s.lock()
	defer s.unlock()
	return s.known >= revision
}

// countCooling counts the blocks that cool. The lock must not be held.
func (s *space) countCooling() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.cooling.blocks)
}

// countUnreadable counts the keys that cannot be read. The lock must not be held.
func (s *space) countUnreadable() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.damage)
}

// newDraft makes a space that is being read: its sums are not published, nobody has to be told
// of it, and another one is replaced by it.
func newDraft(t *table, id SpaceID) *space {
	s := newSpace(t, id)
	s.draft = true
	return s
}
