package index

// The index is a binary trie of prefixes with compressed paths, a buddy
// allocator by another name. It stores a node for the window (the root), for
// every prefix that is held or excluded, and for every fork between two of
// those; a node of another kind is spliced out at once. So there are at most
// twice as many nodes as prefixes marked, and below every node but an empty
// root something is marked.
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

// node is 48 bytes without pointers. What a descent reads lies together.
type node struct {
	addr     uint128
	child    [2]uint32 // places in the arena, or none
	held     uint32    // how often this very prefix is held; at the root, how often it is covered
	length   uint8
	excluded uint8   // whether this very prefix is excluded; at the root, how often it is covered
	free     uint128 // lengths of the free blocks at and below this node; see summary
}

const (
	root = 0 // place of the root in the arena
	none = 0 // no child: the root is nobody's
)

func (n *node) taken() bool { return n.held > 0 || n.excluded > 0 }

func (n *node) leaf() bool { return n.child[0] == none && n.child[1] == none }

// only is the one child of a node that has at most one, or none.
func (n *node) only() uint32 { return n.child[0] | n.child[1] }

func (n *node) prefix() prefix { return prefix{n.addr, n.length} }

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
func (x *Index) branch(n *node, side int) uint128 {
	if n.child[side] == none {
		return bit(n.length + 1)
	}
	m := x.nodes.at(n.child[side])
	return m.free.or(skipped(n, m))
}

// summary is the set of lengths of the free blocks at and below n, marks above
// n left aside. Only an empty ::/0 or 0.0.0.0/0 would need length 0, which the
// set lacks; see vacant.
func (x *Index) summary(n *node) uint128 {
	if n.taken() {
		return uint128{}
	}
	if n.leaf() {
		return bit(n.length)
	}
	return x.branch(n, 0).or(x.branch(n, 1))
}

// vacant reports whether the whole window is one free block.
func (x *Index) vacant() bool {
	r := x.nodes.at(root)
	return r.leaf() && !r.taken()
}

// trail is the way from the root down to a node.
type trail struct {
	nodes   [129]uint32
	depth   int
	covered bool // a node above the last one is taken
}

func (t *trail) push(i uint32) { t.nodes[t.depth] = i; t.depth++ }
func (t *trail) last() uint32  { return t.nodes[t.depth-1] }

// descend follows the stored nodes that contain p, as far as they go, and
// reports whether it ended at p itself.
func (x *Index) descend(p prefix, t *trail) bool {
	i, n := uint32(root), x.nodes.at(root)
	for {
		t.push(i)
		if n.length == p.length {
			return true
		}
		i = n.child[p.addr.side(n.length)]
		if i == none {
			return false
		}
		m := x.nodes.at(i)
		if !m.prefix().contains(p) {
			return false
		}
		t.covered = t.covered || n.taken()
		n = m
	}
}
