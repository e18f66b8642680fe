package space

import (
	"math/big"
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// remove removes a block, and makes its prefix free.
func (s *Space) remove(prefix netip.Prefix) {
	s.setCooling(prefix, nil)
	if old, ok := s.Blocks.drop(prefix); ok {
		s.count(prefix, old, -1)
	}
	s.News.touchAll(s.Room.Pools.over(prefix))
	s.Room.Pools.put(prefix)
	s.Room.freed = append(s.Room.freed, prefix)
}

// note notes the owner of a block, and whether the block cools. It counts the block for its new owner before it stops
// counting it for the old one: a concurrent reader may see too much, never too little.
func (s *Space) note(prefix netip.Prefix, r store.Record) {
	s.News.touchAll(s.Room.Pools.over(prefix))
	by := ownerOf(r)
	if old, had := s.Blocks.get(prefix); !had || old != by {
		s.count(prefix, by, 1)
		if had {
			s.Blocks.drop(prefix)
			s.count(prefix, old, -1)
		}
		s.Blocks.add(prefix, by)
	}
	s.setCooling(prefix, CooledOf(r))
}

// setCooling notes that a block cools; c is nil if it does not. It wakes the waiter that has the name of the former
// holder, because that waiter gets the block at once.
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

// count adds a block to the accounts of its owner, or removes it if sign is -1.
func (s *Space) count(prefix netip.Prefix, of owner, sign int64) {
	n := cidr.Size(prefix)
	if sign < 0 {
		n.Neg(n)
	}
	for a := range of.Value().accounts() {
		s.usage.add(a, n)
		s.publish(a, n)
	}
}

// publish publishes a change of an account: first the new sum, then, if the sum is smaller, a notification. A claim is
// listed as a waiter before it reads the sum, so it misses no notification.
func (s *Space) publish(a Account, n *big.Int) {
	if a.pool == "" {
		s.Table.Quotas.post(a, n)
	}
	if n.Sign() < 0 {
		s.Room.lowered(a)
	}
}
