package index

// The index is a binary trie of prefixes with compressed paths, a buddy
// allocator by another name. It stores a node for the window (the root), for
// every prefix that is held or excluded, and for every fork between two of
// those; a node of another kind is spliced out at once. So there are at most
// twice as many nodes as prefixes marked, and below every node but an empty
// root something is marked. A node with nothing below it is a leaf, and small;
// most held prefixes are leaves.
//
// Free blocks are not stored. A missing child is a free half. A child of a
// length greater by more than one leaves, for every length skipped, the buddy of
// its ancestor of that length: free too.
//
//	       /24 root                free: .128/25   (missing child)
//	      /    \                         .64/26    (buddy on the edge to .0/28)
//	 .0/28      -                        .32/27    (buddy on the edge)
//	  held                               .16/28    (buddy on the edge)
//
// A marked node offers nothing, whatever is below it, but keeps its children:
// they count again when the mark goes.

// trie is the tree of one window, which is its root, and the count of its free
// blocks. Its prefixes lie in the window.
type trie struct {
	nodes     nodes
	histogram Histogram
}

// newTrie returns a trie of a window that is free all over.
func newTrie(window prefix) trie {
	var x trie
	x.nodes.addInner(inner{node: node{addr: window.addr, length: window.length}, free: bit(window.length)})
	x.histogram[window.length] = 1
	return x
}

// half is one half of the node's prefix.
func (n *node) half(side int) prefix {
	if side == 0 {
		return prefix{n.addr, n.length + 1}
	}
	return prefix{n.addr.or(bit(n.length + 1)), n.length + 1}
}

// buddy is the buddy of the node's ancestor of that length.
func (n *node) buddy(length uint8) prefix {
	above := n.addr.and(ones(length - 1))
	return prefix{above.or(bit(length).andNot(n.addr)), length}
}

// skipped is the set of lengths at which the edge from n down to its child m
// passes a free buddy.
func skipped(n, m *node) uint128 { return ones(m.length).andNot(ones(n.length + 1)) }

// branch is the set of lengths of the free blocks in one half of an untaken n.
func (x *trie) branch(n *inner, side int) uint128 {
	c := n.child[side]
	if c == none {
		return bit(n.length + 1)
	}
	m, below := x.nodes.both(c)
	if below == nil {
		return skipped(&n.node, m)
	}
	return below.free.or(skipped(&n.node, m))
}

// summary returns the set of lengths of the free blocks at and below n, as if nothing above n were marked. Only an
// empty ::/0 or 0.0.0.0/0 would need length 0, which the set lacks; see vacant.
func (x *trie) summary(n *inner) uint128 {
	if n.taken() {
		return uint128{}
	}
	if n.empty() {
		return bit(n.length)
	}
	return x.branch(n, 0).or(x.branch(n, 1))
}

// vacant reports whether the whole window is one free block.
func (x *trie) vacant() bool {
	r := x.nodes.inner(root)
	return r.empty() && !r.taken()
}

// trail is the way from the root down to a node.
type trail struct {
	nodes   [129]place
	depth   int
	covered bool // a node above the last one is taken
}

func (t *trail) push(i place) { t.nodes[t.depth] = i; t.depth++ }
func (t *trail) pop()         { t.depth-- }
func (t *trail) last() place  { return t.nodes[t.depth-1] }

// descend follows the stored nodes that contain p, as far as they go, and
// reports whether it ended at p itself.
func (x *trie) descend(p prefix, t *trail) bool {
	i := root
	n, below := x.nodes.both(i)
	for {
		t.push(i)
		if n.length == p.length {
			return true
		}
		if below == nil {
			return false
		}
		i = below.child[p.addr.side(n.length)]
		if i == none {
			return false
		}
		next, belowNext := x.nodes.both(i)
		if !next.prefix().contains(p) {
			return false
		}
		t.covered = t.covered || n.taken()
		n, below = next, belowNext
	}
}

// free reports whether the whole of p is free.
func (x *trie) free(p prefix) bool {
	if x.vacant() {
		return true
	}
	var t trail
	if x.descend(p, &t) {
		return false // every stored node has something taken at or below it
	}
	n := x.nodes.at(t.last())
	if t.covered || n.taken() {
		return false
	}
	c := x.nodes.inner(t.last()).child[p.addr.side(n.length)] // not taken, so no leaf
	return c == none || common(p.addr, x.nodes.at(c).addr) < p.length
}

// overlapping counts the held prefixes that contain p, equal p, or lie in p.
func (x *trie) overlapping(p prefix) int {
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

func (x *trie) countBelow(i place) int {
	count := 0
	for _, c := range x.nodes.children(i) {
		if c != none {
			count += int(x.nodes.at(c).held) + x.countBelow(c)
		}
	}
	return count
}
