package index

// reach follows the way to p as descend does, and makes the nodes that are missing. The free space stays as it is, with
// one exception: a new leaf is cut out of the half in which it lies. The new nodes are not taken.
func (x *trie) reach(p prefix, t *trail) {
	x.descend(p, t)
	for {
		i := t.last()
		n := x.nodes.at(i)
		if n.length == p.length {
			return
		}
		t.covered = t.covered || n.taken()
		switch {
		case i.leaf():
			x.promote(t)
		case x.nodes.inner(i).child[p.addr.side(n.length)] == none:
			t.push(x.addLeaf(i, p, t.covered))
			return
		default:
			t.push(x.addFork(i, p))
		}
	}
}

// addLeaf hangs a leaf for p below i, where nothing is yet. The caller marks it.
func (x *trie) addLeaf(i place, p prefix, covered bool) place {
	c := x.nodes.addLeaf(node{addr: p.addr, length: p.length})
	if !covered {
		x.count(i, -1)
	}
	n := x.nodes.inner(i)
	n.child[p.addr.side(n.length)] = c
	if !covered {
		x.count(i, +1)
		x.count(c, +1)
	}
	return c
}

// addFork puts a node between i and its child on the side of p. The node lies where the ways to p and to the child
// part, or at p itself if p contains the child.
func (x *trie) addFork(i place, p prefix) place {
	n := x.nodes.inner(i)
	side := p.addr.side(n.length)
	c := n.child[side]
	m := x.nodes.at(c)
	length := min(p.length, common(p.addr, m.addr))
	fork := inner{node: node{addr: p.addr.and(ones(length)), length: length}}
	fork.child[m.addr.side(length)] = c
	fork.free = x.summary(&fork)
	f := x.nodes.addInner(fork)
	x.nodes.inner(i).child[side] = f
	return f
}

// promote turns the leaf at the end of the trail into an inner node, so that other nodes can be put below it. A leaf is
// marked, so nothing in it is free, before and after.
func (x *trie) promote(t *trail) {
	i := t.last()
	t.pop()
	t.push(x.replace(t.last(), i, x.nodes.addInner(inner{node: *x.nodes.at(i)})))
}

// demote undoes promote. Nothing is below the node any more.
func (x *trie) demote(t *trail) {
	i := t.last()
	t.pop()
	t.push(x.replace(t.last(), i, x.nodes.addLeaf(*x.nodes.at(i))))
}

// replace puts node m below i where c was, and returns it.
func (x *trie) replace(i, c, m place) place {
	n := x.nodes.inner(i)
	n.child[x.nodes.at(c).addr.side(n.length)] = m
	x.nodes.release(c)
	return m
}

// take updates the free space after the last node of the trail has got its first mark.
func (x *trie) take(t *trail) {
	if !t.covered {
		x.countAll(t.last(), -1)
	}
	x.refresh(t)
}

// give updates the free space after the last node of the trail has lost its last mark.
func (x *trie) give(t *trail) {
	if !t.covered {
		x.countAll(t.last(), +1)
	}
	x.prune(t)
	x.refresh(t)
}

// prune removes the nodes at the end of the trail that the trie does not need: unmarked nodes that are neither the root
// nor a fork. When a leaf goes, its parent may be no fork any more. A marked node below which nothing is left becomes a
// leaf. Otherwise each block that once contained others would keep the memory of an inner node.
func (x *trie) prune(t *trail) {
	for t.depth > 1 {
		c := t.last()
		child := x.nodes.children(c)
		if x.nodes.at(c).taken() {
			if !c.leaf() && child == [2]place{} {
				x.demote(t)
			}
			return
		}
		if child[0] != none && child[1] != none {
			return
		}
		t.pop()
		x.splice(t.last(), c, t.covered)
	}
}

// splice replaces c below its parent i by the only child of c. If c has no child, c is removed, and joins its free
// buddies. The free space is the same either way.
func (x *trie) splice(i, c place, covered bool) {
	joins := c.leaf() && !covered
	if joins {
		x.count(i, -1)
		x.count(c, -1)
	}
	child := x.nodes.children(c)
	x.replace(i, c, child[0]|child[1])
	if joins {
		x.count(i, +1)
	}
}

// refresh brings the summaries along the trail up to date, from the end of the trail to the first summary that stays
// the same.
func (x *trie) refresh(t *trail) {
	for d := t.depth - 1; d >= 0; d-- {
		if t.nodes[d].leaf() {
			continue // it has no summary
		}
		n := x.nodes.inner(t.nodes[d])
		free := x.summary(n)
		if free == n.free {
			return
		}
		n.free = free
	}
}

// count adds the number by to the histogram for each free block at node i, as if i were not taken. Blocks below the
// children of i do not count.
func (x *trie) count(i place, by int) {
	n, child := x.nodes.at(i), x.nodes.children(i)
	if child == [2]place{} {
		x.histogram[n.length] += by
		return
	}
	for _, c := range child {
		if c == none {
			x.histogram[n.length+1] += by
			continue
		}
		end := x.nodes.at(c).length
		for d := n.length + 2; d <= end; d++ {
			x.histogram[d] += by
		}
	}
}

// countAll calls count for i and for all nodes below it that no taken node covers. Its cost is the number of nodes
// below i: none for a block that contains no others.
func (x *trie) countAll(i place, by int) {
	x.count(i, by)
	for _, c := range x.nodes.children(i) {
		if c != none && !x.nodes.at(c).taken() {
			x.countAll(c, by)
		}
	}
}
