package index

// arena keeps nodes by number, in chunks without pointers to collect. A node
// never moves to make room for others, so no Take pays for a copy of them all;
// only the first chunk grows by copying, so that a small pool stays small.
// The zero value is empty.
type arena struct {
	chunks [][]node
	spare  uint32 // first of the released nodes, linked by child[0]; none at the end
}

const (
	chunkBits = 12
	chunkSize = 1 << chunkBits // 192 KiB
)

// at is node i. An alloc may invalidate the pointer.
func (a *arena) at(i uint32) *node {
	return &a.chunks[i>>chunkBits][i%chunkSize]
}

// alloc puts n in the place of a released node, if there is one, and returns its
// number. The first is 0. Numbers would end at 200 GB.
func (a *arena) alloc(n node) uint32 {
	if i := a.spare; i != none {
		a.spare = a.at(i).child[0]
		*a.at(i) = n
		return i
	}
	i := a.size()
	switch {
	case i == 0:
		a.chunks = make([][]node, 1)
	case i%chunkSize == 0:
		a.chunks = append(a.chunks, make([]node, 0, chunkSize))
	}
	last := &a.chunks[len(a.chunks)-1]
	*last = append(*last, n)
	return uint32(i)
}

// release keeps the place of node i for the next alloc.
func (a *arena) release(i uint32) {
	*a.at(i) = node{child: [2]uint32{a.spare}}
	a.spare = i
}

// size is the number of places, taken and released.
func (a *arena) size() int {
	full := len(a.chunks) - 1
	if full < 0 {
		return 0
	}
	return full*chunkSize + len(a.chunks[full])
}
