package allocator

// frost is why a pool keeps its space frozen.
type frost int

const (
	thawed frost = iota
	unseen       // this Allocator was not told yet that nothing is lost
	lost         // the ledger says that changes are lost
)

func (p *pool) frost() frost {
	switch {
	case p.Frozen:
		return lost
	case p.unseen:
		return unseen
	}
	return thawed
}

// frozen is the worst of what the pools of the space say. One that drains allocates
// nothing, and nobody may be left to speak for it.
//
// The changes of a frozen space are not counted in its head: the head keeps saying how
// much of what was published the ledger had when it was found. So however often the
// process ends before the space is whole again, the next one finds the same.
func (s *space) frozen() frost {
	worst := thawed
	for _, p := range s.pools {
		if p.State == PoolOpen {
			worst = max(worst, p.frost())
		}
	}
	return worst
}

// thaw makes a change that may end the space's frost, and serves waiters if it does.
func (s *space) thaw(change func()) {
	before := s.frozen()
	change()
	if before == thawed || s.frozen() != thawed {
		return
	}
	for _, p := range s.pools {
		s.offer(p, p.CIDR)
	}
}
