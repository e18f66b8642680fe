package space

import (
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// FreezeReason is why a pool keeps its space frozen.
type FreezeReason int

const (
	// NotFrozen: it does not.
	NotFrozen FreezeReason = iota
	// Untrusted: this Allocator was not told yet that nothing is lost.
	Untrusted
	// LostChanges: the ledger says that changes are lost.
	LostChanges
)

// FreezeReason is why the pool keeps its space frozen, if it does.
func (p *Pool) FreezeReason() FreezeReason {
	switch {
	case p.Frozen:
		return LostChanges
	case p.Untrusted:
		return Untrusted
	}
	return NotFrozen
}

// Frozen is the worst of what the pools of the space say. One that drains allocates
// nothing, and nobody may be left to speak for it.
//
// The changes of a frozen space are not counted in its head: the head keeps saying how
// much of what was published the ledger had when it was found. So however often the
// process ends before the space is whole again, the next one finds the same.
func (s *Space) Frozen() FreezeReason {
	worst := NotFrozen
	for _, p := range s.Pools {
		if p.State == ledger.PoolOpen {
			worst = max(worst, p.FreezeReason())
		}
	}
	return worst
}

// Unfreeze makes a change that may end the space's freeze, and serves waiters if it does.
func (s *Space) Unfreeze(change func()) {
	before := s.Frozen()
	change()
	if before == NotFrozen || s.Frozen() != NotFrozen {
		return
	}
	for _, p := range s.Pools {
		s.offer(p, p.CIDR)
	}
}
