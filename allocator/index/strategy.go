package index

import (
	"fmt"
	"net/netip"
)

// Strategy says which free block a new one is cut from. The zero value is
// FirstFit.
type Strategy uint8

const (
	// FirstFit takes the lowest address that fits.
	FirstFit Strategy = iota
	// BestFit cuts from the smallest free block that fits, the lowest of equals:
	// large blocks stay whole.
	BestFit
	// LeastUtilized cuts from the largest free block, the lowest of equals:
	// blocks stay apart and have room to grow.
	LeastUtilized
)

var strategies = [...]string{"FirstFit", "BestFit", "LeastUtilized"}

// String spells the strategy as the Kubernetes API does.
func (s Strategy) String() string {
	if int(s) < len(strategies) {
		return strategies[s]
	}
	return fmt.Sprintf("Strategy(%d)", uint8(s))
}

// Find proposes a free prefix of the given length. The strategy s chooses a free block, and the prefix lies at the
// start of that block. An unknown strategy acts as FirstFit. Find takes nothing. ok is false if no free block is large
// enough, or the family has no such length.
//
// Find costs O(prefix length) however full the pool is, and allocates no memory.
func (x *Index) Find(length int, s Strategy) (p netip.Prefix, ok bool) {
	if length < int(x.window.length) || length > int(x.width) || x.width == 0 {
		return netip.Prefix{}, false
	}
	want := prefix{x.window.addr, uint8(length)}
	if x.trie.vacant() {
		return want.netip(x.width), true
	}
	fits := x.trie.nodes.inner(root).free.and(ones(want.length))
	if fits.isZero() {
		return netip.Prefix{}, false
	}
	switch s {
	case BestFit:
		fits = bit(fits.last())
	case LeastUtilized:
		fits = bit(fits.first())
	case FirstFit: // the lowest of all that fit
	}
	want.addr = x.trie.lowest(fits)
	return want.netip(x.width), true
}

// lowest returns the address of the lowest free block whose length is in the set lengths. The root's summary says that
// there is one.
//
// Below a node, the left half comes before the right. In a half, the way to the child passes one free buddy for each
// skipped length. Buddies left of the way come first, from the top. Then come the blocks below the child, and then the
// buddies right of the way, from the bottom.
func (x *trie) lowest(lengths uint128) uint128 {
	n, side := x.nodes.inner(root), 0
	for {
		c := n.child[side]
		if c == none {
			if !lengths.and(bit(n.length + 1)).isZero() {
				return n.half(side).addr
			}
			side++
			continue
		}
		m, below := x.nodes.both(c)
		buddies := skipped(&n.node, m).and(lengths)
		left := buddies.and(m.addr)
		switch {
		case !left.isZero():
			return m.buddy(left.first()).addr
		case below != nil && !below.free.and(lengths).isZero():
			n, side = below, 0
		case !buddies.isZero():
			return m.buddy(buddies.last()).addr
		default:
			side++
		}
	}
}
