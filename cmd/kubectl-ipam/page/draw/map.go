// Package draw lays out the space of a pool as nested boxes, and writes them as SVG. All of it is
// pure: the same blocks give the same picture.
//
// A prefix is halved as its address is: by a vertical cut, then a horizontal one, in turn. The lower
// half is on the left, or on top. So every prefix is one box, each box is a square or two squares
// side by side, buddies lie next to each other, and addresses run from left to right and from top
// to bottom, as text does. (This is a Z-order curve. A Hilbert curve keeps distant neighbours
// closer, but turns at each level, so that readers do not find an address by eye.)
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
	// Free is for the taking.
	Free Kind = iota
	// Unseen is free, or held by somebody whose blocks are not shown to the caller.
	Unseen
	// Own is held by a claim of the current workspace.
	Own
	// Foreign is held by a claim of another workspace.
	Foreign
	// Child is the block of a pool that was carved from this one.
	Child
	// Retained is kept by a reclaim policy, without a claim.
	Retained
	// Kept is never handed out: reserved or excluded.
	Kept
	// Planned is where a claim would go.
	Planned
	// Mixed has several blocks, which are too small to draw or too many.
	Mixed
	// Cooling is free, or was released a short while ago and is not allocated again yet.
	Cooling
)

var kinds = [...]string{"free", "unseen", "own", "foreign", "child", "retained", "kept", "planned", "mixed", "cooling"}

// String is the name of the kind in classes and patterns.
func (k Kind) String() string { return kinds[k] }

// Block is a block with what is known of it.
type Block struct {
	Prefix netip.Prefix
	Kind   Kind
	// Label names the holder, and Short does so where there is little room; both may be empty.
	Label, Short string
}

// Map is a space to draw.
type Map struct {
	// Window is the part of the space that is drawn.
	Window netip.Prefix
	// Blocks are in order, as [Sort] makes it. Those outside the window are left out.
	Blocks []Block
	// Rest is what is known of the addresses between the blocks: Free, Cooling or Unseen.
	Rest Kind
	// Limit is the largest number of boxes; 0 is 1000.
	Limit int
	// Least is the smallest area of a box that is cut further; 0 is 100, a ten by ten of the 1024 by 512.
	Least float64
}

// The size of a picture.
const (
	Width  = 1024
	Height = 512
)

// Box is a prefix with its place in the picture.
type Box struct {
	Block
	X, Y, W, H float64
	// Blocks is how many blocks a Mixed box has, and Share how much of it is not free: 0 to 1.
	Blocks int
	Share  float64
}

// Sort puts blocks in the order that a Map needs: by address, the larger first.
func Sort(blocks []Block) {
	order := func(a, b Block) int { return a.Prefix.Compare(b.Prefix) }
	if !slices.IsSortedFunc(blocks, order) {
		slices.SortStableFunc(blocks, order)
	}
}

// part is a prefix that is to be drawn, with its blocks: those from first to before last, and
// the one that covers it, if one does.
type part struct {
	box         Box
	first, last int
	over        *Block
}

// Boxes cuts the window until each box is of one kind, too small to cut, or one of as many as the
// limit allows. The largest boxes are cut first.
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

// whole is the window, as one part.
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

// plain finds out what a part is, and reports whether it needs no cut: it is covered by a block,
// or has none.
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

// share is how much of a part its blocks cover. A block inside another is not counted again.
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

// halves cuts a part: side by side if it is wide, else one above the other.
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
