package space

import (
	"iter"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Pools are the pools of one space, whose lock guards them. They are windows on the same addresses: a prefix that is
// taken is taken in every pool that it overlaps.
type Pools []*Pool

// Find returns the pool with an ID; nil: there is none.
func (ps Pools) Find(id ledger.PoolID) *Pool {
	for _, p := range ps {
		if p.ID == id {
			return p
		}
	}
	return nil
}

// over yields the pools that have addresses in common with a prefix.
func (ps Pools) over(prefix netip.Prefix) iter.Seq[*Pool] {
	return func(yield func(*Pool) bool) {
		for _, p := range ps {
			if p.CIDR.Overlaps(prefix) && !yield(p) {
				return
			}
		}
	}
}

// take takes a prefix in every pool that it overlaps.
func (ps Pools) take(prefix netip.Prefix) {
	for _, p := range ps {
		p.Index.Take(prefix)
	}
}

// put undoes one take.
func (ps Pools) put(prefix netip.Prefix) {
	for _, p := range ps {
		p.Index.Put(prefix)
	}
}

// vacant reports whether no part of a prefix is taken in any pool.
func (ps Pools) vacant(prefix netip.Prefix) bool {
	for p := range ps.over(prefix) {
		if p.Index.Overlapping(prefix) > 0 {
			return false
		}
	}
	return true
}

// drained returns the touched pools that are to be retired now, and marks them as retiring.
func (ps Pools) drained(touched []ledger.PoolID) (drained []*Pool) {
	for _, id := range touched {
		if p := ps.Find(id); p != nil && !p.Retiring && p.goes() {
			p.Retiring = true
			drained = append(drained, p)
		}
	}
	return drained
}

// NextRelease returns when the next cooling block of any pool is free; zero if none cools.
func (ps Pools) NextRelease() (next time.Time) {
	for _, p := range ps {
		if at := p.Cools.Next(); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// Frozen returns why the space is frozen: the worst reason of its pools. A pool that drains does not count: it
// allocates nothing, and its IPPool may be gone, so that nothing would end its freeze.
//
// The head of a frozen space does not count changes. It keeps the number of changes that the ledger had when it was
// found to have lost some. So a process that starts before the space is whole again finds the same number.
func (ps Pools) Frozen() FreezeReason {
	worst := NotFrozen
	for _, p := range ps {
		if p.State == ledger.PoolOpen {
			worst = max(worst, p.FreezeReason())
		}
	}
	return worst
}
