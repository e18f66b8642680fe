package space

import (
	"math/big"
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// Committed turns a reservation into a block, committed at the revision.
func (s *Space) Committed(prefix netip.Prefix, r store.Record, revision int64) {
	if revision <= s.Known { // the watch was faster, and has taken it too
		s.Room.Unreserve(prefix)
		return
	}
	delete(s.Room.reserved, prefix)
	s.note(prefix, r)
}

// Put notes a block that was there before, and was changed at the revision.
func (s *Space) Put(prefix netip.Prefix, r store.Record, revision int64) {
	if revision > s.Known { // else the watch was faster
		s.note(prefix, r)
	}
}

// Add takes the prefix of a block that is new in the ledger. What was held there for a waiter is
// given up.
func (s *Space) Add(prefix netip.Prefix) {
	s.Room.Pools.take(prefix)
	s.Room.yield(prefix)
}

// Removed returns the prefix of a block that was removed at the revision.
func (s *Space) Removed(prefix netip.Prefix, revision int64) {
	if revision > s.Known {
		s.remove(prefix)
	}
}

func (s *Space) remove(prefix netip.Prefix) {
	s.setCooling(prefix, nil)
	if old, ok := s.Blocks.remove(prefix); ok {
		s.count(prefix, old, -1)
	}
	s.News.touchAll(s.Room.Pools.over(prefix))
	s.Room.free(prefix)
}

// note notes what the ledger says of a block: whose it is, and whether it cools. New owners are
// counted before the old ones are not: a concurrent reader sees too much, never too little.
func (s *Space) note(prefix netip.Prefix, r store.Record) {
	if s.draft != nil {
		s.load(prefix, r)
		return
	}
	s.News.touchAll(s.Room.Pools.over(prefix))
	by := ownersOf(r)
	old, had := s.Blocks.of(prefix)
	if !had || old.first != by.first || len(old.rivals)+len(by.rivals) > 0 {
		s.count(prefix, by, 1)
		if had {
			s.Blocks.remove(prefix)
			s.count(prefix, old, -1)
		}
		s.Blocks.put(prefix, by)
	}
	s.setCooling(prefix, CooledOf(r))
}

// setCooling notes that a block cools; nil: it does not. A waiter with the name of its former
// holder is woken: it is given the block at once.
func (s *Space) setCooling(prefix netip.Prefix, c *Cooled) {
	if old, cooled := s.Cooling.remove(prefix); cooled {
		for p := range s.Room.Pools.over(prefix) {
			p.uncool(prefix, old)
		}
	}
	if c == nil {
		return
	}
	s.Cooling.put(prefix, c)
	for p := range s.Room.Pools.over(prefix) {
		p.cool(prefix, c)
	}
	if p := s.Pool(c.Owner.Value().Pool); p != nil {
		if w, waits := p.Waiting.names[c.former]; waits {
			s.News.wake(&w.request.Holder)
		}
	}
}

// count adds a block to what its owners have, times a sign.
func (s *Space) count(prefix netip.Prefix, of owners, sign int64) {
	n := cidr.Size(prefix)
	n.Mul(n, big.NewInt(sign))
	for _, a := range of.accounts() {
		s.usage.add(a, n)
		s.publish(a, n)
	}
}

// publish tells those outside of the space that an account has changed: first how much
// is held, then that it is less. Who waits for that asks to be told, then looks.
func (s *Space) publish(a Account, n *big.Int) {
	if s.draft != nil {
		return
	}
	if a.pool == "" {
		s.Table.Quotas.post(a, n)
	}
	if n.Sign() < 0 && s.Table.Quotas.watched(a) {
		s.News.relieve(a)
	}
}
