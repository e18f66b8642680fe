// Package index finds free prefixes in the window of a pool.
package index

import (
	"math/big"
	"net/netip"
)

// Index tracks the free space of one pool, whose CIDR is its window. In the window, a prefix may be held (for a block)
// or excluded (by the pool's configuration). The rest is free, and is seen as the fewest possible blocks: two free
// buddies are one free block of twice the size.
//
// A prefix may be held several times, and held prefixes may nest: room that is held for a waiter is taken once more by
// the draft that binds it. Each Take is undone by its own Put. Exclusions are independent of held prefixes, and may lie
// over or under them. When an exclusion is lifted, a held prefix below it is still held.
//
// A prefix may be larger than the window, because pools of one address domain may overlap. Such a prefix takes the
// whole window. A prefix outside the window, of the other family, or invalid is ignored. Host bits are ignored
// everywhere: 10.0.0.7/24 is 10.0.0.0/24.
//
// A change costs O(prefix length), however full the pool is. Only a prefix that covers marked prefixes costs more, to
// count the free blocks among these.
//
// The zero value has no window: nothing is free in it, and nothing can be held. It is not safe for concurrent use: the
// lock of the pool's space guards it.
type Index struct {
	window prefix
	width  uint8 // bits of an address of the family: 32 or 128
	trie   trie  // of the window
	blocks int
	covers []cover // marks that cover the window, by length; the window's own included; nil until there is one
}

// cover holds the marks of one prefix that covers the window.
type cover struct {
	held     int
	excluded bool
}

// New returns an index of a window that is free all over. An invalid window
// gives the zero value.
func New(window netip.Prefix) *Index {
	if !window.IsValid() {
		return &Index{}
	}
	w := prefixOf(window)
	return &Index{window: w, width: uint8(window.Addr().BitLen()), trie: newTrie(w)}
}

// Free reports whether the whole of p is free and inside the window.
func (x *Index) Free(p netip.Prefix) bool {
	q, ok := x.normal(p)
	return ok && q.length >= x.window.length && x.trie.free(q)
}

// Take marks p as held. If p is held already, it is held once more. Take checks nothing: if p must not overlap held or
// excluded prefixes, ask Free before.
func (x *Index) Take(p netip.Prefix) {
	q, ok := x.normal(p)
	if !ok {
		return
	}
	if q.length <= x.window.length {
		x.cover(q.length).held++
		q = x.window
	}
	x.blocks++
	var t trail
	x.trie.reach(q, &t)
	n := x.trie.nodes.at(t.last())
	n.held++
	if n.held == 1 && n.excluded == 0 {
		x.trie.take(&t)
	}
}

// Put undoes one Take of p. It reports whether p was held; if not, nothing
// changes.
func (x *Index) Put(p netip.Prefix) bool {
	q, ok := x.normal(p)
	if !ok {
		return false
	}
	if q.length <= x.window.length {
		c := x.cover(q.length)
		if c.held == 0 {
			return false
		}
		c.held--
		q = x.window
	}
	var t trail
	if !x.trie.descend(q, &t) {
		return false
	}
	n := x.trie.nodes.at(t.last())
	if n.held == 0 {
		return false
	}
	n.held--
	x.blocks--
	if !n.taken() {
		x.trie.give(&t)
	}
	return true
}

// Exclude marks p, so that no free block overlaps it. Held blocks in p stay. A second Exclude changes nothing.
func (x *Index) Exclude(p netip.Prefix) {
	q, ok := x.normal(p)
	if !ok {
		return
	}
	if q.length <= x.window.length {
		c := x.cover(q.length)
		if c.excluded {
			return
		}
		c.excluded = true
		q = x.window
	}
	var t trail
	x.trie.reach(q, &t)
	n := x.trie.nodes.at(t.last())
	if n.excluded > 0 && n.length > x.window.length {
		return
	}
	n.excluded++
	if n.excluded == 1 && n.held == 0 {
		x.trie.take(&t)
	}
}

// Include undoes Exclude of p. It reports whether p itself was excluded; if not,
// nothing changes, even if p lies in a larger exclusion.
func (x *Index) Include(p netip.Prefix) bool {
	q, ok := x.normal(p)
	if !ok {
		return false
	}
	if q.length <= x.window.length {
		c := x.cover(q.length)
		if !c.excluded {
			return false
		}
		c.excluded = false
		q = x.window
	}
	var t trail
	if !x.trie.descend(q, &t) {
		return false
	}
	n := x.trie.nodes.at(t.last())
	if n.excluded == 0 {
		return false
	}
	n.excluded--
	if !n.taken() {
		x.trie.give(&t)
	}
	return true
}

// normal converts p. ok is false if p has nothing in common with the window.
func (x *Index) normal(p netip.Prefix) (q prefix, ok bool) {
	if !p.IsValid() || p.Addr().BitLen() != int(x.width) {
		return prefix{}, false
	}
	q = prefixOf(p)
	return q, common(q.addr, x.window.addr) >= min(q.length, x.window.length)
}

// cover returns the marks of the prefix of this length that covers the window.
func (x *Index) cover(length uint8) *cover {
	if x.covers == nil {
		x.covers = make([]cover, x.window.length+1)
	}
	return &x.covers[length]
}

// Blocks returns how many prefixes are held: the number of Takes less that of their Puts. Exclusions are not counted.
func (x *Index) Blocks() int { return x.blocks }

// Overlapping counts the held blocks that p overlaps: those inside it, and
// those that contain it. It costs a step for each block inside.
func (x *Index) Overlapping(p netip.Prefix) int {
	q, ok := x.normal(p)
	if !ok {
		return 0
	}
	if q.length < x.window.length {
		q = x.window
	}
	return x.trie.overlapping(q)
}

// Total is the number of addresses in the window.
func (x *Index) Total() *big.Int {
	if x.width == 0 {
		return new(big.Int)
	}
	return x.addresses(x.window.length, 1)
}
