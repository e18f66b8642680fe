package pool

import (
	"io"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// spaceMap draws the space of a pool as text.
type spaceMap struct{ space.Space }

// The map is drawn in so many columns and rows, powers of two; in fewer columns and more rows
// where lines are short.
const (
	mapColumns = 64
	mapRows    = 8
)

// cell is how much of a part of the pool is kept back, and how much is taken or kept back, 0 to 1.
type cell struct{ kept, used float64 }

func (c cell) String() string {
	switch {
	case c.kept >= 1:
		return "×"
	case c.used >= 1:
		return "█"
	case c.used > 0.5:
		return "▓"
	case c.used > 0:
		return "░"
	default:
		return "·"
	}
}

// cellBits is the prefix length of a cell of the map.
func (s spaceMap) cellBits() int {
	return min(s.Pool.Bits()+int(math.Log2(mapColumns*mapRows)), s.Pool.Addr().BitLen())
}

// cells are the parts of the pool in order.
func (s spaceMap) cells() []cell {
	bits := s.cellBits()
	cells := make([]cell, 1<<(bits-s.Pool.Bits()))
	for _, block := range space.Outermost(slices.Concat(s.Taken, s.Kept)) {
		s.spread(block, func(i int, share float64) { cells[i].used += share })
	}
	for _, block := range space.Outermost(s.Kept) {
		s.spread(block, func(i int, share float64) { cells[i].kept += share })
	}
	return cells
}

// spread calls add for each cell that a block of the pool touches, with its share of it.
func (s spaceMap) spread(block netip.Prefix, add func(cell int, share float64)) {
	if !block.Overlaps(s.Pool) || block.Bits() < s.Pool.Bits() {
		return
	}
	bits := s.cellBits()
	distance := new(big.Int).Sub(space.Number(block.Addr()), space.Number(s.Pool.Addr()))
	first := int(distance.Rsh(distance, uint(block.Addr().BitLen()-bits)).Int64())
	if block.Bits() >= bits {
		add(first, math.Exp2(float64(bits-block.Bits())))
		return
	}
	for i := range 1 << (bits - block.Bits()) {
		add(first+i, 1)
	}
}

// columns is how many cells of the map fit into a line of this width, beside its first address;
// a width of 0 is not limited.
func (s spaceMap) columns(width int) int {
	const least = 8
	columns, head := mapColumns, len("    ")+len(netipx.PrefixLastIP(s.Pool).String())
	for width > 0 && columns > least && head+columns > width {
		columns /= 2
	}
	return columns
}

// draw writes the map: a line for each row, led by its first address.
func (s spaceMap) draw(w io.Writer, lineWidth int) {
	cells, bits, columns := s.cells(), s.cellBits(), s.columns(lineWidth)
	screen.Line(w, "each sign is a /%d: █ taken, ▓ ░ in part, × kept back, · free or not shown to you", bits)
	heads := make([]string, 0, mapRows)
	for at := 0; at < len(cells); at += columns {
		heads = append(heads, s.address(at).String())
	}
	width := len(slices.MaxFunc(heads, func(a, b string) int { return len(a) - len(b) }))
	for i, head := range heads {
		var line strings.Builder
		for _, c := range cells[i*columns : min((i+1)*columns, len(cells))] {
			line.WriteString(c.String())
		}
		screen.Line(w, "  %-*s  %s", width, head, line.String())
	}
}

// address is the first one of a cell.
func (s spaceMap) address(cell int) netip.Addr {
	offset := new(big.Int).Lsh(big.NewInt(int64(cell)), uint(s.Pool.Addr().BitLen()-s.cellBits()))
	return space.Address(offset.Add(offset, space.Number(s.Pool.Addr())), s.Pool.Addr())
}
