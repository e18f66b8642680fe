package space

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/google/btree"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// exact is the waiters for exact prefixes that no room is held for: by prefix, of one prefix by
// workspace, and of one workspace by age. Of those of one workspace that wait for one prefix only
// the oldest is ever looked at.
type exact struct{ *btree.BTreeG[*Waiter] }

func newExact() *exact {
	return &exact{btree.NewWithFreeListG(32, byPrefix, nodes)}
}

// byPrefix compares no more than it needs to: it takes most of the time of an offer.
func byPrefix(a, b *Waiter) bool {
	if by := ledger.ComparePrefixes(a.request.Exact, b.request.Exact); by != 0 {
		return by < 0
	}
	if by := cmp.Compare(a.cluster(), b.cluster()); by != 0 {
		return by < 0
	}
	return older(a, b) < 0
}

// behindAll is younger than every waiter.
var behindAll = time.Unix(1<<40, 0)

// asking is where the waiters of a workspace for a prefix begin, if it were a waiter.
func asking(p netip.Prefix, c ledger.ClusterName) *Waiter {
	return &Waiter{request: ledger.Request{Exact: p, Holder: ledger.Holder{Cluster: c}}}
}

// alike reports whether two waiters are of one workspace, and for one prefix.
func alike(a, b *Waiter) bool {
	return a.request.Exact == b.request.Exact && a.cluster() == b.cluster()
}

// touching puts the waiters for a prefix that overlaps p, and is free, in a line of their own. Of
// those of one workspace for one prefix it has the oldest; see following.
func (e *exact) touching(p netip.Prefix, free func(netip.Prefix) bool, t *turns) *line {
	found := newLine(t, 0)
	if e.Len() == 0 {
		return found
	}
	for bits := range p.Bits() {
		cover := netip.PrefixFrom(p.Addr(), bits).Masked()
		e.pushFirsts(found, cover, free, func(at netip.Prefix) bool { return at == cover })
	}
	e.pushFirsts(found, p, free, func(at netip.Prefix) bool { return p.Contains(at.Addr()) })
	return found
}

// pushFirsts puts into a line the oldest waiter of each workspace for each free prefix, from a
// prefix on and while more are asked for.
func (e *exact) pushFirsts(found *line, from netip.Prefix, free, more func(netip.Prefix) bool) {
	for at := asking(from, ""); at != nil; {
		start, last := at, (*Waiter)(nil)
		at = nil
		e.AscendGreaterOrEqual(start, func(w *Waiter) bool {
			switch {
			case !more(w.request.Exact):
				return false
			case last != nil && alike(w, last): // many may wait for one prefix: go on behind them
				at = asking(last.request.Exact, last.cluster())
				at.since = behindAll
				return false
			case free(w.request.Exact):
				found.push(w)
			}
			last = w
			return true
		})
	}
}

// following is the oldest waiter of the same workspace for the same prefix as one that has left; ok
// is false if there is none.
func (e *exact) following(gone *Waiter) (next *Waiter, ok bool) {
	e.AscendGreaterOrEqual(asking(gone.request.Exact, gone.cluster()), func(w *Waiter) bool {
		next, ok = w, alike(w, gone)
		return false
	})
	return next, ok
}
