package index

import (
	"fmt"
	"unsafe"
)

// Check reports what is wrong with the trie itself: a node that should have been
// spliced out, a stale summary, a place lost from an arena.
func (x *Index) Check() error {
	if x.width == 0 {
		return nil
	}
	stored, err := x.trie.check(root, x.width)
	if err != nil {
		return err
	}
	for kind, i := range []place{x.trie.nodes.spareInner, x.trie.nodes.spareLeaf} {
		for ; i != none; i = place(x.trie.nodes.at(i).held) {
			stored[kind]++
		}
	}
	if want := x.Nodes(); stored != want {
		return fmt.Errorf("%d inner nodes and leaves are stored or spare, of %d", stored, want)
	}
	return nil
}

// check reports what is wrong at and below node i, and counts the inner nodes
// and the leaves there.
func (x *trie) check(i place, width uint8) (stored [2]int, err error) {
	n, child := x.nodes.at(i), x.nodes.children(i)
	forked := child[0] != none && child[1] != none
	if i != root && !n.taken() && !forked {
		return stored, fmt.Errorf("%v is stored without need", n.prefix().netip(width))
	}
	if i != root && !i.leaf() && child == [2]place{} {
		return stored, fmt.Errorf("%v is no leaf, and nothing is below it", n.prefix().netip(width))
	}
	if !i.leaf() {
		m := x.nodes.inner(i)
		if got := x.summary(m); got != m.free {
			return stored, fmt.Errorf("%v: summary %x, want %x", n.prefix().netip(width), m.free, got)
		}
	}
	stored[i>>31] = 1
	for side, c := range child {
		if c == none {
			continue
		}
		m := x.nodes.at(c)
		if m.length <= n.length || common(m.addr, n.half(side).addr) <= n.length || m.addr.andNot(ones(m.length)) != (uint128{}) {
			return stored, fmt.Errorf("%v is stored below %v", m.prefix().netip(width), n.prefix().netip(width))
		}
		below, err := x.check(c, width)
		if err != nil {
			return stored, err
		}
		stored[0] += below[0]
		stored[1] += below[1]
	}
	return stored, nil
}

// Nodes are the numbers of places for inner nodes and for leaves.
func (x *Index) Nodes() [2]int { return [2]int{x.trie.nodes.inners.size(), x.trie.nodes.leaves.size()} }

// Bytes returns how many bytes the places of Nodes take.
func (x *Index) Bytes() int {
	places := x.Nodes()
	return places[0]*int(unsafe.Sizeof(inner{})) + places[1]*int(unsafe.Sizeof(node{}))
}
