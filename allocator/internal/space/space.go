package space

import (
	"math/big"
	"slices"
	"sync"

	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// Space is one space in memory: its pools with their free space, the owners of its blocks, and the
// claims that wait for room.
//
// Its parts know nothing of one another. Room has the free space and the waiters, Blocks the
// owners, usage the accounts, and Cooling the blocks that cool. The space keeps them in line.
//
// Head, Blocks, usage and Cooling are as the ledger has them: after the start, only Apply changes them. In the indexes,
// the prefixes that are held for waiters and those of the draft are taken, too. The lock guards all fields: the writer
// takes it to plan, and after a transaction. The holder of the lock must not wait for anything.
type Space struct {
	ID    ledger.SpaceID
	Table *Table

	mu      sync.Mutex
	Head    store.Head // of the space
	Gone    bool       // retired; a queued call has to look for its pool again
	Room    Room
	Blocks  blocks
	usage   usage // the addresses of this space on each account
	Cooling coolingBlocks
	draft   *Draft // of the group that is planned or in flight; nil: there is none
	Damage  Damage // while there is any, the space does nothing

	Unlocking func()     // called before the lock is released
	Unlocked  func(News) // called after the lock is released, with the notifications
	News      News
}

// NewSpace makes an empty space. Set Unlocking and Unlocked before the first Unlock.
func NewSpace(t *Table, id ledger.SpaceID) *Space {
	s := &Space{Table: t, ID: id, Blocks: newBlocks(), usage: usage{}, Damage: Damage{}}
	s.Room = Room{table: t, lock: s, news: &s.News}
	return s
}

// close removes all pools of the space, which was retired.
func (s *Space) close() {
	s.Gone, s.Head = true, store.Head{}
	s.Table.dropPart(ledger.PoolID(s.ID))
	for _, p := range slices.Clone(s.Room.Pools) {
		s.removePool(p.ID)
	}
}

// Lock takes the lock of the space. Its holder must not wait for anything.
func (s *Space) Lock() { s.mu.Lock() }

// Unlock releases the lock, and then delivers the notifications.
func (s *Space) Unlock() { s.Unlocked(s.Release()) }

// Release releases the lock, and returns the notifications. A caller with the locks of several spaces delivers them
// when it has released all.
func (s *Space) Release() (told News) {
	s.Unlocking()
	if of, is := ledger.AddressSpaceOf(ledger.PoolID(s.ID)); is && !s.Gone && !s.Unregistered() {
		s.Table.notePart(of, ledger.PoolID(s.ID), s.part())
	}
	s.News.Drained = s.Room.Pools.drained(s.News.Touched)
	told = s.News
	s.News, s.Room.clock = News{}, nil
	s.mu.Unlock()
	return told
}

// Read calls a function with the lock held. The function must change nothing, because no notification follows.
func (s *Space) Read(look func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	look()
}

// Pool returns the pool of the space with an ID; nil: there is none.
func (s *Space) Pool(id ledger.PoolID) *Pool { return s.Room.Pools.Find(id) }

// putPool replaces the record of a pool, or adds a new pool.
func (s *Space) putPool(record ledger.Pool) {
	p := s.Pool(record.ID)
	if p != nil && s.Table.Lists(p) {
		s.Room.update(p, record)
		return
	}
	if p == nil {
		p = s.Expect(record)
	}
	s.News.Touch(p.ID)
	s.Table.Add(p)
}

// Expect adds a pool that the ledger does not have yet, so that an operation can be planned there.
func (s *Space) Expect(record ledger.Pool) *Pool {
	p := newPool(s, record)
	s.fill(p)
	for prefix, c := range s.Cooling.Blocks {
		if p.CIDR.Overlaps(prefix) {
			p.cool(prefix, c)
		}
	}
	s.Room.Pools = append(s.Room.Pools, p)
	return p
}

// Unregistered reports whether the ledger has nothing of the space.
func (s *Space) Unregistered() bool {
	return s.Head.Revision == 0 && !slices.ContainsFunc(s.Room.Pools, s.Table.Lists)
}

// Follow updates an address space after its pool has changed.
func (s *Space) Follow(of ledger.Pool) {
	for _, p := range s.Room.Pools {
		if next := p.Derived.In(of); differs(p.Pool, next) {
			s.Room.update(p, next)
		}
	}
}

// differs compares the fields of an address space that change with its pool.
func differs(a, b ledger.Pool) bool {
	return a.State != b.State || a.Frozen != b.Frozen || a.Closed() != b.Closed() || !slices.Equal(a.Excluded, b.Excluded)
}

// part returns how an address space is used.
func (s *Space) part() Part {
	p := Part{
		Held:   s.Blocks.Len() > len(s.Cooling.Blocks) || len(s.Damage) > 0 || len(s.Room.Pools) == 0,
		Cools:  len(s.Cooling.Blocks) > 0,
		damage: s.Damage.Err(),
	}
	for _, of := range s.Room.Pools {
		p.Last = of.Cools.Last()
	}
	return p
}

// fill marks, in the index of a new pool, all prefixes of the space that are taken: those of the ledger's blocks, also
// of blocks that cannot be read, and those that are held for waiters. There is no draft when a pool is added. The
// indexes of the other pools do not have all blocks: the pool of a block may be gone, or its record unreadable.
func (s *Space) fill(p *Pool) {
	for prefix := range s.Blocks.taken() {
		p.Index.Take(prefix)
	}
	for prefix := range s.Room.reserved.all() {
		p.Index.Take(prefix)
	}
}

// removePool removes a pool, if it is there, and its waiters.
func (s *Space) removePool(id ledger.PoolID) {
	p := s.Pool(id)
	if p == nil {
		return
	}
	s.Room.clear(p)
	s.Room.Unfreeze(func() {
		s.Room.Pools = slices.DeleteFunc(s.Room.Pools, func(q *Pool) bool { return q == p })
	})
	s.News.Left = append(s.News.Left, p.Pool)
	s.News.Touch(p.ID)
	s.Table.Remove(p)
}

func newPool(s *Space, record ledger.Pool) *Pool {
	// A derived pool that is added after the ledger was loaded is new: a lost one that is restored comes back frozen.
	isNew := record.Derived != nil && s.Table.Loaded
	p := &Pool{Pool: record, In: s, Index: index.New(record.CIDR), Untrusted: s.Table.Frozen && !isNew}
	for _, x := range record.Excluded {
		p.Index.Exclude(x)
	}
	return p
}

// Begin gives the space an empty draft, for the operations that are planned from now on.
func (s *Space) Begin() { s.draft = &Draft{} }

// Take adds to the draft the prefixes that the changes of an operation take.
func (s *Space) Take(changes []store.Change) {
	for i := range changes {
		e := changes[i].Entry
		if e != nil && e.Kind == store.BlockKey && e.Space == s.ID && e.Put && !s.Blocks.has(e.Prefix) {
			s.draft.take(s, taken{e.Prefix, OwnerOf(*e.Block.Held)})
		}
	}
}

func (d *Draft) take(s *Space, t taken) {
	s.Room.Pools.take(t.prefix)
	s.countDraft(t, 1)
	d.taken = append(d.taken, t)
	if len(d.pending) > 0 {
		d.pending.Add(t.by, cidr.Size(t.prefix))
	}
}

// countDraft adds a prefix of a draft to the account of its class, or removes it if sign is -1.
func (s *Space) countDraft(t taken, sign int64) {
	for a := range t.by.accounts() {
		if a.pool == "" {
			s.publish(a, new(big.Int).Mul(big.NewInt(sign), cidr.Size(t.prefix)))
		}
	}
}

// giveUp frees the prefixes that the draft has taken in the indexes, and returns them. Without a draft, or when called
// again, it does nothing.
func (d *Draft) giveUp(s *Space) (back []taken) {
	if d == nil {
		return nil
	}
	for _, t := range d.taken {
		s.Room.Pools.put(t.prefix)
		s.countDraft(t, -1)
	}
	back, d.taken, d.pending = d.taken, nil, nil
	return back
}

// Discard ends the draft when its outcome is certain. It offers the waiting claims the prefixes that the draft still
// takes.
func (s *Space) Discard() {
	for _, t := range s.draft.giveUp(s) {
		s.Room.freed = append(s.Room.freed, t.prefix)
	}
	s.draft = nil
	s.Room.offerFreed()
}

// Visit calls visit with a pool, and with the lock of its space held. ok is false if the pool is not
// in memory.
func (t *Table) Visit(id ledger.PoolID, visit func(*Pool)) (ok bool) {
	for {
		p, ok := t.Find(id)
		if !ok {
			return false
		}
		if t.visit(p, visit) {
			return true
		}
	}
}

// visit calls a function with a pool, and with the lock of its space held. It reports false, and calls nothing, if the
// pool was replaced before its space was locked.
func (t *Table) visit(p *Pool, visit func(*Pool)) (ok bool) {
	p.In.Lock()
	defer p.In.Unlock()
	if now, _ := t.Find(p.ID); now != p {
		return false
	}
	visit(p)
	return true
}
