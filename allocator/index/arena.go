package index

// arena keeps entries by number, in chunks that have no pointers for the garbage collector. Later chunks are never
// copied, so no Take pays for a copy of all entries. Only the first chunk grows by copying, so that a small pool stays
// small. The zero value is empty.
type arena[E any] struct {
	chunks [][]E
}

const (
	chunkBits = 12
	chunkSize = 1 << chunkBits // 192 KiB of inner nodes, 96 KiB of leaves
)

// at is entry i. An add may invalidate the pointer.
func (a *arena[E]) at(i uint32) *E {
	return &a.chunks[i>>chunkBits][i%chunkSize]
}

// add puts e at the end and returns its number. The first is 0.
func (a *arena[E]) add(e E) uint32 {
	i := a.size()
	switch {
	case i == 0:
		a.chunks = make([][]E, 1)
	case i%chunkSize == 0:
		a.chunks = append(a.chunks, make([]E, 0, chunkSize))
	}
	last := &a.chunks[len(a.chunks)-1]
	*last = append(*last, e)
	return uint32(i)
}

func (a *arena[E]) size() int {
	full := len(a.chunks) - 1
	if full < 0 {
		return 0
	}
	return full*chunkSize + len(a.chunks[full])
}
