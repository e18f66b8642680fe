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
		x.heldBelow(root, yield)
	}
}

func (x *Index) heldBelow(i place, yield func(netip.Prefix) bool) bool {
	for _, c := range x.nodes.children(i) {
		if c == none {
			continue
		}
		m := x.nodes.at(c)
		if !x.repeat(m.prefix(), int(m.held), yield) || !x.heldBelow(c, yield) {
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
		x.freeBelow(root, yield)
	}
}

func (x *Index) freeBelow(i place, yield func(netip.Prefix) bool) bool {
	if i.leaf() || x.nodes.at(i).taken() {
		return true
	}
	n := x.nodes.inner(i)
	if n.empty() {
		return yield(n.prefix().netip(x.width))
	}
	for side, c := range n.child {
		if !x.freeHalf(&n.node, side, c, yield) {
			return false
		}
	}
	return true
}

// freeHalf yields what is free in one half of n, in the order that lowest explains.
func (x *Index) freeHalf(n *node, side int, c place, yield func(netip.Prefix) bool) bool {
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
	if !x.freeBelow(c, yield) {
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
	i := t.last()
	if reached {
		return count + x.countBelow(i)
	}
	c := x.nodes.children(i)[p.addr.side(x.nodes.at(i).length)]
	if c == none || !p.contains(x.nodes.at(c).prefix()) {
		return count
	}
	return count + int(x.nodes.at(c).held) + x.countBelow(c)
}

func (x *Index) countBelow(i place) int {
	count := 0
	for _, c := range x.nodes.children(i) {
		if c != none {
			count += int(x.nodes.at(c).held) + x.countBelow(c)
		}
	}
	return count
}
