package index

import "net/netip"

// held is the body of Held. The covers stand for the root's own marks.
func (x *Index) held(yield func(netip.Prefix) bool) {
	for length, c := range x.covers {
		p := prefix{x.window.addr.and(ones(uint8(length))), uint8(length)}
		if !x.repeat(p, c.held, yield) {
			return
		}
	}
	if x.width > 0 {
		x.heldBelow(x.nodes.at(root), yield)
	}
}

func (x *Index) heldBelow(n *node, yield func(netip.Prefix) bool) bool {
	for _, c := range n.child {
		if c == none {
			continue
		}
		m := x.nodes.at(c)
		if !x.repeat(m.prefix(), int(m.held), yield) || !x.heldBelow(m, yield) {
			return false
		}
	}
	return true
}

func (x *Index) repeat(p prefix, times int, yield func(netip.Prefix) bool) bool {
	for range times {
		if !yield(p.netip(x.width)) {
			return false
		}
	}
	return true
}

// freeBlocks is the body of FreeBlocks.
func (x *Index) freeBlocks(yield func(netip.Prefix) bool) {
	if x.width > 0 {
		x.freeBelow(x.nodes.at(root), yield)
	}
}

func (x *Index) freeBelow(n *node, yield func(netip.Prefix) bool) bool {
	if n.taken() {
		return true
	}
	if n.leaf() {
		return yield(n.prefix().netip(x.width))
	}
	for side, c := range n.child {
		if !x.freeHalf(n, side, c, yield) {
			return false
		}
	}
	return true
}

// freeHalf yields what is free in one half of n, in the order that lowest explains.
func (x *Index) freeHalf(n *node, side int, c uint32, yield func(netip.Prefix) bool) bool {
	if c == none {
		return yield(n.half(side).netip(x.width))
	}
	m := x.nodes.at(c)
	buddies := skipped(n, m)
	for left := buddies.and(m.addr); !left.isZero(); left = left.andNot(bit(left.first())) {
		if !yield(m.buddy(left.first()).netip(x.width)) {
			return false
		}
	}
	if !x.freeBelow(m, yield) {
		return false
	}
	for right := buddies.andNot(m.addr); !right.isZero(); right = right.andNot(bit(right.last())) {
		if !yield(m.buddy(right.last()).netip(x.width)) {
			return false
		}
	}
	return true
}

// overlapping is the body of Overlapping: what is held around p, at it and below.
func (x *Index) overlapping(p prefix) int {
	var t trail
	reached := x.descend(p, &t)
	count := 0
	for _, i := range t.nodes[:t.depth] {
		count += int(x.nodes.at(i).held)
	}
	n := x.nodes.at(t.last())
	if reached {
		return count + x.countBelow(n)
	}
	c := n.child[p.addr.side(n.length)]
	if c == none || !p.contains(x.nodes.at(c).prefix()) {
		return count
	}
	return count + int(x.nodes.at(c).held) + x.countBelow(x.nodes.at(c))
}

func (x *Index) countBelow(n *node) int {
	count := 0
	for _, c := range n.child {
		if c != none {
			m := x.nodes.at(c)
			count += int(m.held) + x.countBelow(m)
		}
	}
	return count
}
