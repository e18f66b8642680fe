package index

// node is what the trie stores of every prefix: 24 bytes without pointers. A leaf is only a node. Leaves are marked, so
// nothing in them is free.
type node struct {
	addr     uint128
	held     uint32 // how often this very prefix is held; at the root, how many held prefixes cover it
	length   uint8
	excluded uint8 // whether this very prefix is excluded; at the root, how many exclusions cover it
}

// inner is a node with something below it, or the root: 48 bytes. What a descent
// reads lies together.
type inner struct {
	node
	child [2]place
	free  uint128 // lengths of the free blocks at and below this node; see summary
}

func (n *node) taken() bool { return n.held > 0 || n.excluded > 0 }

func (n *node) prefix() prefix { return prefix{n.addr, n.length} }

// empty reports whether nothing is below n.
func (n *inner) empty() bool { return n.child == [2]place{} }

// place is the number of a node. Its highest bit says in which arena the node is.
type place uint32

const (
	root place = 0 // an inner node, even if nothing is below it
	none place = 0 // no child; no node has the root as a child

	leafBit place = 1 << 31 // set in the place of a leaf
)

func (i place) leaf() bool { return i&leafBit != 0 }

// nodes are the nodes of a trie. About half of them are leaves. Leaves have an arena of their own, because they need
// neither children nor a summary. Places are enough for 150 GB of nodes.
type nodes struct {
	inners arena[inner] // the first is the root
	leaves arena[node]

	// The first of the released places. The field held of each has the next; none: there is no other.
	spareInner, spareLeaf place
}

// at is node i, whether a leaf or not. An add may invalidate the pointer.
func (s *nodes) at(i place) *node {
	n, _ := s.both(i)
	return n
}

// inner is node i, which is no leaf. An add may invalidate the pointer.
func (s *nodes) inner(i place) *inner { return s.inners.at(uint32(i)) }

// both returns the results of at and inner, by one access. below is nil if node i is a leaf.
func (s *nodes) both(i place) (n *node, below *inner) {
	if i.leaf() {
		return s.leaves.at(uint32(i &^ leafBit)), nil
	}
	below = s.inner(i)
	return &below.node, below
}

// children are the places below node i. A leaf has none.
func (s *nodes) children(i place) [2]place {
	if i.leaf() {
		return [2]place{}
	}
	return s.inner(i).child
}

// addInner stores n, in a released place if there is one.
func (s *nodes) addInner(n inner) place {
	i := s.reuse(&s.spareInner)
	if i == none {
		return place(s.inners.add(n))
	}
	*s.inner(i) = n
	return i
}

// addLeaf stores n, in a released place if there is one.
func (s *nodes) addLeaf(n node) place {
	i := s.reuse(&s.spareLeaf)
	if i == none {
		return place(s.leaves.add(n)) | leafBit
	}
	*s.at(i) = n
	return i
}

// reuse takes the first of the spare places, if there is one.
func (s *nodes) reuse(spare *place) place {
	i := *spare
	if i != none {
		*spare = place(s.at(i).held)
	}
	return i
}

// release keeps place i for the next node of its kind.
func (s *nodes) release(i place) {
	spare := &s.spareInner
	if i.leaf() {
		spare = &s.spareLeaf
	}
	s.at(i).held = uint32(*spare)
	*spare = i
}
