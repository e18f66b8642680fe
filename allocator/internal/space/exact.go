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
type exact struct{ tree *btree.BTreeG[wish] }

// wish is a waiter in the tree, beside its prefix: most comparisons need no more, and looking into
// each waiter would take most of the time of an offer.
type wish struct {
	prefix netip.Prefix
	*Waiter
}

func wishOf(w *Waiter) wish { return wish{w.request.Exact, w} }

func newExact() *exact { return &exact{btree.NewG(32, wish.before)} }

func (a wish) before(b wish) bool {
	if by := ledger.ComparePrefixes(a.prefix, b.prefix); by != 0 {
		return by < 0
	}
	if by := cmp.Compare(a.cluster(), b.cluster()); by != 0 {
		return by < 0
	}
	return older(a.Waiter, b.Waiter) < 0
}

// alike reports whether two are of one workspace, and for one prefix.
func (a wish) alike(b wish) bool { return a.prefix == b.prefix && a.cluster() == b.cluster() }

// asking is where the waiters of a workspace for a prefix begin, if it were a waiter.
func asking(p netip.Prefix, c ledger.ClusterName) wish {
	return wish{p, &Waiter{request: ledger.Request{Exact: p, Holder: ledger.Holder{Cluster: c}}}}
}

// asked is where they end.
func asked(p netip.Prefix, c ledger.ClusterName) wish {
	end := asking(p, c)
	end.since = time.Unix(1<<40, 0) // younger than every waiter
	return end
}

func (e *exact) add(w *Waiter) {
	e.tree.ReplaceOrInsert(wishOf(w))
	w.turn.wish(w)
}

func (e *exact) remove(w *Waiter) {
	e.tree.Delete(wishOf(w))
	w.turn.wishes.Delete(w)
}

// oldest returns the oldest waiter of a workspace for a prefix. There must be one.
func (e *exact) oldest(p netip.Prefix, c ledger.ClusterName) (first *Waiter) {
	e.tree.AscendGreaterOrEqual(asking(p, c), func(w wish) bool {
		first = w.Waiter
		return false
	})
	return first
}

// touching puts the waiters for a free prefix that overlaps one of these in a line of their own. Of
// those of one workspace for one prefix it has the oldest; see following. The caller removes all from
// the line, because their workspaces keep its lanes.
func (e *exact) touching(free func(netip.Prefix) bool, these ...netip.Prefix) *line {
	found := &line{}
	if e.tree.Len() == 0 {
		return found
	}
	for _, p := range these {
		for bits := range p.Bits() {
			cover := netip.PrefixFrom(p.Addr(), bits).Masked()
			e.pushFirsts(found, cover, free, func(at netip.Prefix) bool { return at == cover })
		}
		e.pushFirsts(found, p, free, func(at netip.Prefix) bool { return p.Contains(at.Addr()) })
	}
	return found
}

// pushFirsts puts into a line the oldest waiter of each workspace for each free prefix, from a
// prefix on and while more are asked for.
func (e *exact) pushFirsts(found *line, from netip.Prefix, free, more func(netip.Prefix) bool) {
	for at, left := asking(from, ""), true; left; {
		var last wish
		left = false
		e.tree.AscendGreaterOrEqual(at, func(w wish) bool {
			switch {
			case !more(w.prefix):
				return false
			case last.Waiter != nil && w.alike(last): // many may wait for one prefix: go on behind them
				at, left = asked(last.prefix, last.cluster()), true
				return false
			case free(w.prefix):
				found.push(w.Waiter)
			}
			last = w
			return true
		})
	}
}

// following is the oldest waiter of the same workspace for the same prefix as one that has left; ok
// is false if there is none.
func (e *exact) following(gone *Waiter) (next *Waiter, ok bool) {
	e.tree.AscendGreaterOrEqual(asking(gone.request.Exact, gone.cluster()), func(w wish) bool {
		next, ok = w.Waiter, w.alike(wishOf(gone))
		return false
	})
	return next, ok
}
