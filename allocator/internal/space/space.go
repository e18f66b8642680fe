package space

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Space is one space in memory: its pools with their free space, whose the blocks are, and the
// claims that wait for room.
//
// Its parts know nothing of one another: room is what is free and who waits for it, blocks are
// those of the ledger, usage and Cooling what of them is on whose account, and what cools. The
// space joins them: what the ledger says goes through Apply, or through Put, Committed and
// Removed where this process has written it.
//
// All is as of the ledger at the known revision, plus what is reserved. Only the holder of the
// lock touches it: the worker when it places and when its transaction is through, the watch when
// another allocator wrote. Nobody holds the lock while waiting for anything.
type Space struct {
	ID    ledger.SpaceID
	Table *Table

	mu      sync.Mutex
	Known   int64      // revision up to which all changes to the space are known
	Head    store.Head // of the space, as of then
	Gone    bool       // retired; what is queued has to look for its pool again
	Room    Room
	Blocks  blocks
	usage   usage // what the owners of the blocks hold of this space
	Cooling coolingBlocks
	draft   *draft // being read, what it says is not published; nil: it is not
	Damage  Damage // nothing is done in the space while there is any
	Stale   bool   // events were passed over; it is about to be read again
	Marked  string // the writer that keeps the waiting list, as the ledger names it; empty: claims do not wait

	Unlocking func()     // called before the lock is let go
	Unlocked  func(News) // called after that, with what is to be told
	News      News
}

// NewSpace makes a space of which nothing is known. Set Unlocking and Unlocked before its lock is let go.
func NewSpace(t *Table, id ledger.SpaceID) *Space {
	s := &Space{Table: t, ID: id, Blocks: newBlocks(), usage: usage{}, Damage: Damage{}}
	s.Room = Room{table: t, lock: s, news: &s.News, reserved: map[netip.Prefix]*Waiter{}}
	return s
}

// NewDraft makes a space that is being read: what it says is not published, nobody has to be told
// of it, and another one is replaced by it.
func NewDraft(t *Table, id ledger.SpaceID) *Space {
	s := NewSpace(t, id)
	s.draft = &draft{held: map[share]int64{}}
	return s
}

// Lock takes the space. Nobody holds it while waiting for anything.
func (s *Space) Lock() { s.mu.Lock() }

// Unlock lets go of the space, then tells those who have to know.
func (s *Space) Unlock() {
	s.Unlocking()
	s.News.Drained = s.Room.Pools.drained(s.News.Touched)
	told := s.News
	s.News, s.Room.clock = News{}, nil
	s.mu.Unlock()
	s.Unlocked(told)
}

// Read calls a function with the lock held that changes nothing.
func (s *Space) Read(look func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	look()
}

// OthersWait reports whether claims wait for room whose list is not here, or not complete.
func (s *Space) OthersWait() bool { return s.Marked != "" && s.Marked != s.Table.Writer }

// Pool is a pool of the space; nil: it has none of that ID.
func (s *Space) Pool(id ledger.PoolID) *Pool { return s.Room.Pools.Find(id) }

// PutPool brings the record of a pool up to date, or a new pool in.
func (s *Space) PutPool(record ledger.Pool) {
	if p := s.Pool(record.ID); p != nil {
		s.Room.update(p, record)
		return
	}
	p := newPool(s, record)
	for prefix, c := range s.Cooling.Blocks {
		if p.CIDR.Overlaps(prefix) {
			p.cool(prefix, c)
		}
	}
	s.Room.Pools = s.Room.Pools.with(p)
	s.News.Touch(p.ID)
	if s.draft == nil {
		s.Table.Add(p)
	}
}

// RemovePool removes a pool, if it is there, and those who waited for it.
func (s *Space) RemovePool(id ledger.PoolID) {
	p := s.Pool(id)
	if p == nil {
		return
	}
	s.Room.clear(p)
	s.Room.Pools = slices.DeleteFunc(s.Room.Pools, func(q *Pool) bool { return q == p })
	s.News.Left = append(s.News.Left, p.Pool)
	s.News.Touch(p.ID)
	s.Table.Remove(p)
}
