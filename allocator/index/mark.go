package index

// reach is descend that makes the nodes which are missing on the way to p. Nodes
// made are untaken and leave the free space as it is, but for a leaf: it is cut
// out of the half it lies in.
func (x *Index) reach(p prefix, t *trail) {
	x.descend(p, t)
	for {
		i := t.last()
		n := x.nodes.at(i)
		if n.length == p.length {
			return
		}
		t.covered = t.covered || n.taken()
		side := p.addr.side(n.length)
		if n.child[side] == none {
			t.push(x.addLeaf(i, p, t.covered))
			return
		}
		t.push(x.addFork(i, p))
	}
}

// addLeaf hangs a node for p below i, where nothing is yet.
func (x *Index) addLeaf(i uint32, p prefix, covered bool) uint32 {
	c := x.nodes.alloc(node{addr: p.addr, length: p.length, free: bit(p.length)})
	if !covered {
		x.count(i, -1)
	}
	n := x.nodes.at(i)
	n.child[p.addr.side(n.length)] = c
	if !covered {
		x.count(i, +1)
		x.count(c, +1)
	}
	return c
}

// addFork puts a node between i and its child on the side of p: where their ways
// part, or at p itself if p contains the child.
func (x *Index) addFork(i uint32, p prefix) uint32 {
	side := p.addr.side(x.nodes.at(i).length)
	c := x.nodes.at(i).child[side]
	m := x.nodes.at(c)
	length := min(p.length, common(p.addr, m.addr))
	fork := node{addr: p.addr.and(ones(length)), length: length}
	fork.child[m.addr.side(length)] = c
	fork.free = x.summary(&fork)
	f := x.nodes.alloc(fork)
	x.nodes.at(i).child[side] = f
	return f
}

// take tells the index that the last node of the trail has got its first mark.
func (x *Index) take(t *trail) {
	if !t.covered {
		x.countAll(t.last(), -1)
	}
	x.refresh(t)
}

// give tells the index that the last node of the trail has lost its last mark.
func (x *Index) give(t *trail) {
	if !t.covered {
		x.countAll(t.last(), +1)
	}
	x.prune(t)
	x.refresh(t)
}

// prune removes from the end of the trail what the trie does not need: a node
// without a mark that is neither the root nor a fork. When a leaf goes, its
// parent may have ceased to be a fork.
func (x *Index) prune(t *trail) {
	for t.depth > 1 {
		c := t.last()
		n := x.nodes.at(c)
		if n.taken() || n.child[0] != none && n.child[1] != none {
			return
		}
		t.depth--
		x.splice(t.last(), c, t.covered)
	}
}

// splice replaces c below its parent i by the only child of c, or by nothing:
// then c joins its free buddies. The free space is the same either way.
func (x *Index) splice(i, c uint32, covered bool) {
	n := x.nodes.at(i)
	joins := x.nodes.at(c).leaf() && !covered
	if joins {
		x.count(i, -1)
		x.count(c, -1)
	}
	n.child[x.nodes.at(c).addr.side(n.length)] = x.nodes.at(c).only()
	if joins {
		x.count(i, +1)
	}
	x.nodes.release(c)
}

// refresh brings the summaries along the trail up to date, from its end until
// one is found unchanged.
func (x *Index) refresh(t *trail) {
	for d := t.depth - 1; d >= 0; d-- {
		n := x.nodes.at(t.nodes[d])
		free := x.summary(n)
		if free == n.free {
			return
		}
		n.free = free
	}
}

// count adds the free blocks that lie at node i, not below its children and as
// if it were untaken, to the histogram, by times.
func (x *Index) count(i uint32, by int) {
	n := x.nodes.at(i)
	if n.leaf() {
		x.histogram[n.length] += by
		return
	}
	for _, c := range n.child {
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

// countAll is count for i and all below that no taken node covers. Its cost is
// what is stored below i: nothing for a block that holds no others.
func (x *Index) countAll(i uint32, by int) {
	x.count(i, by)
	for _, c := range x.nodes.at(i).child {
		if c != none && !x.nodes.at(c).taken() {
			x.countAll(c, by)
		}
	}
}
