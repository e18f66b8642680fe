package index

import "fmt"

// Check reports what is wrong with the trie itself: a node that should have been
// spliced out, a stale summary, a place lost from the arena.
func (x *Index) Check() error {
	if x.width == 0 {
		return nil
	}
	stored, err := x.check(root)
	if err != nil {
		return err
	}
	spare := 0
	for i := x.nodes.spare; i != none; i = x.nodes.at(i).child[0] {
		spare++
	}
	if stored+spare != x.nodes.size() {
		return fmt.Errorf("%d nodes stored and %d spare of %d", stored, spare, x.nodes.size())
	}
	return nil
}

func (x *Index) check(i uint32) (stored int, err error) {
	n := x.nodes.at(i)
	forked := n.child[0] != none && n.child[1] != none
	if i != root && !n.taken() && !forked {
		return 0, fmt.Errorf("%v is stored without need", n.prefix().netip(x.width))
	}
	if got := x.summary(n); got != n.free {
		return 0, fmt.Errorf("%v: summary %x, want %x", n.prefix().netip(x.width), n.free, got)
	}
	stored = 1
	for side, c := range n.child {
		if c == none {
			continue
		}
		m := x.nodes.at(c)
		if m.length <= n.length || common(m.addr, n.half(side).addr) <= n.length || m.addr.andNot(ones(m.length)) != (uint128{}) {
			return 0, fmt.Errorf("%v is stored below %v", m.prefix().netip(x.width), n.prefix().netip(x.width))
		}
		below, err := x.check(c)
		if err != nil {
			return 0, err
		}
		stored += below
	}
	return stored, nil
}

// Nodes is the number of places in the arena.
func (x *Index) Nodes() int { return x.nodes.size() }
