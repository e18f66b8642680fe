// Package draw lays out the space of a pool as nested boxes, and writes them as SVG. All of it is pure: the same blocks
// always give the same picture.
//
// A prefix is cut into its two halves, by a vertical and a horizontal cut in turn. The lower half is on the left, or on
// top. So every prefix is one box, each box is a square or two squares side by side, buddies lie next to each other,
// and addresses run from left to right and from top to bottom, as text does. (This is a Z-order curve. A Hilbert curve
// keeps distant neighbours closer, but turns at each level, so that readers cannot find an address by eye.)
package draw

import (
	"math"
	"net/netip"
	"slices"
	"sort"

	"github.com/kcp-ipam/ipam/internal/cidr"
)

// Kind is what is known of a block.
type Kind uint8

const (
	// Free is a block that can be allocated.
	Free Kind = iota
	// Unseen is a block that is free, or held by somebody whose blocks the caller does not see.
	Unseen
	// Own is a block that a claim of the current workspace holds.
	Own
	// Foreign is a block that a claim of another workspace holds.
	Foreign
	// Child is the block of a pool that was carved from this pool.
	Child
	// Retained is a block that a reclaim policy keeps, without a claim.
	Retained
	// Kept is a block that is never handed out, because it is reserved or excluded.
	Kept
	// Planned is the block that a claim would get.
	Planned
	// Mixed is a box with several blocks, which are too small or too many to draw.
	Mixed
	// Cooling is a block that is free, or that was released a short time ago and is not allocated again yet.
	Cooling
)

var kinds = [...]string{"free", "unseen", "own", "foreign", "child", "retained", "kept", "planned", "mixed", "cooling"}

// String returns the name of the kind in CSS classes and patterns.
func (k Kind) String() string { return kinds[k] }

// Block is a prefix, with what is known of it.
type Block struct {
	Prefix netip.Prefix
	Kind   Kind
	// Label names the holder. Short does so where there is little space. Both may be empty.
	Label, Short string
}

// Map is a space to draw.
type Map struct {
	// Window is the part of the space that is drawn.
	Window netip.Prefix
	// Blocks must be sorted as by [Sort]. Those outside the window are not drawn.
	Blocks []Block
	// Rest is what is known of the addresses between the blocks: Free, Cooling or Unseen.
	Rest Kind
	// Limit is the largest number of boxes; 0 means 1000.
	Limit int
	// Least is the smallest area of a box that is cut further; 0 means 100, which is 10 by 10 in a picture of 1024 by 512.
	Least float64
}

// This is the size of a picture.
const (
	Width  = 1024
	Height = 512
)

// Box is a block with its place in the picture.
type Box struct {
	Block
	X, Y, W, H float64
	// Blocks is the number of blocks in a Mixed box. Share is how much of the box is not free, from 0 to 1.
	Blocks int
	Share  float64
}

// Sort sorts blocks as a Map needs them: by address, and larger ones first.
func Sort(blocks []Block) {
	order := func(a, b Block) int { return a.Prefix.Compare(b.Prefix) }
	if !slices.IsSortedFunc(blocks, order) {
		slices.SortStableFunc(blocks, order)
	}
}

// part is a prefix that is to be drawn. Its blocks are those from first to before last. over is a block that covers all
// of the part; nil: none does.
type part struct {
	box         Box
	first, last int
	over        *Block
}

// Boxes cuts the window into boxes. It cuts the largest first. It does not cut a box of one kind, nor one that is too
// small, and it stops at the limit.
func (m Map) Boxes() []Box {
	limit, least := m.Limit, m.Least
	if limit == 0 {
		limit = 1000
	}
	if least == 0 {
		least = 100
	}
	queue, done := []part{m.whole()}, []Box(nil)
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		whole := m.plain(&p)
		if !whole && p.box.W*p.box.H >= least && len(done)+len(queue)+2 <= limit {
			low, high := m.halves(p)
			queue = append(queue, low, high)
			continue
		}
		if !whole {
			p.box.Kind, p.box.Blocks, p.box.Share = Mixed, p.last-p.first, m.share(p)
		}
		done = append(done, p.box)
	}
	slices.SortFunc(done, func(a, b Box) int { return a.Prefix.Compare(b.Prefix) })
	return done
}

// whole returns the window as one part.
func (m Map) whole() part {
	p := part{box: Box{Block: Block{Prefix: m.Window.Masked()}, W: Width, H: Height}}
	p.first = sort.Search(len(m.Blocks), func(i int) bool {
		return m.Blocks[i].Prefix.Addr().Compare(p.box.Prefix.Addr()) >= 0
	})
	p.last = p.first + sort.Search(len(m.Blocks)-p.first, func(i int) bool {
		return !p.box.Prefix.Contains(m.Blocks[p.first+i].Prefix.Addr())
	})
	for i := range p.first {
		if b := &m.Blocks[i]; b.Prefix.Bits() <= p.box.Prefix.Bits() && b.Prefix.Contains(p.box.Prefix.Addr()) {
			p.over = b
		}
	}
	return p
}

// plain finds out the kind of a part. It returns true if the part need not be cut, because one block covers it or no
// block is in it.
func (m Map) plain(p *part) bool {
	prefix := p.box.Prefix
	for p.first < p.last && m.Blocks[p.first].Prefix.Bits() <= prefix.Bits() {
		if p.over == nil {
			p.over = &m.Blocks[p.first]
		}
		p.first++
	}
	switch {
	case p.over != nil:
		p.box.Kind, p.box.Label, p.box.Short, p.box.Share = p.over.Kind, p.over.Label, p.over.Short, 1
		return true
	case p.first == p.last:
		p.box.Kind = m.Rest
		return true
	}
	return false
}

// share returns how much of a part its blocks cover. It counts a block inside another one only once.
func (m Map) share(p part) float64 {
	sum, end := 0.0, netip.Prefix{}
	for _, b := range m.Blocks[p.first:p.last] {
		if end.IsValid() && end.Contains(b.Prefix.Addr()) {
			continue
		}
		end = b.Prefix
		sum += math.Exp2(float64(p.box.Prefix.Bits() - b.Prefix.Bits()))
	}
	return min(sum, 1)
}

// halves cuts a part into two, which lie side by side if the part is wide, and otherwise one above the other.
func (m Map) halves(p part) (low, high part) {
	low, high = p, p
	low.box, high.box = Box{X: p.box.X, Y: p.box.Y}, Box{X: p.box.X, Y: p.box.Y}
	if low.box.W, low.box.H = p.box.W, p.box.H/2; p.box.W > p.box.H {
		low.box.W, low.box.H = p.box.W/2, p.box.H
		high.box.X += low.box.W
	} else {
		high.box.Y += low.box.H
	}
	high.box.W, high.box.H = low.box.W, low.box.H
	low.box.Prefix, high.box.Prefix = cidr.Halves(p.box.Prefix)
	middle := high.box.Prefix.Addr()
	at := p.first + sort.Search(p.last-p.first, func(i int) bool {
		return m.Blocks[p.first+i].Prefix.Addr().Compare(middle) >= 0
	})
	low.last, high.first = at, at
	return low, high
}
