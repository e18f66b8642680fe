package pool

import (
	"fmt"
	"io"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/util/duration"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/internal/plural"
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

// bar draws how much of a pool is taken, and how much of that cools: ███▒░░░░  50.0%.
func bar(p screen.Paint, pool *ipamv1alpha1.IPPool) screen.Tinted {
	const width = 16
	if pool.Status.UtilizationPercent == nil {
		return screen.Tinted(strings.Repeat(" ", width) + "       -")
	}
	percent := min(max(*pool.Status.UtilizationPercent, 0), 100)
	full, taken := int(math.Round(percent/100*width)), "█"
	if full == 0 && percent > 0 {
		full, taken = 1, "▏" // less than half a sign
	}
	cooling := coolingCells(pool, full, width)
	return level(p, percent, strings.Repeat(taken, full-cooling)+strings.Repeat("▒", cooling)+strings.Repeat("░", width-full)) + screen.Tinted(fmt.Sprintf("  %6s", ipamv1alpha1.UtilizationColumn(percent)))
}

// level colours a bar by how full it is.
func level(p screen.Paint, percent float64, drawn string) screen.Tinted {
	switch {
	case percent >= 90:
		return p.Red(drawn)
	case percent >= 75:
		return p.Yellow(drawn)
	default:
		return p.Green(drawn)
	}
}

// cools says how much of a pool cools, and until when; empty if nothing does.
func cools(pool *ipamv1alpha1.IPPool, now time.Time) string {
	if space.Cooling(pool.Status.Capacity).Sign() == 0 {
		return ""
	}
	said := plural.Of(pool.Status.Capacity.Cooling, "address after its release", "addresses after their release")
	next := pool.Status.NextRelease
	if next == nil {
		return said
	}
	return fmt.Sprintf("%s; the next are free at %s, in %s", said, next.UTC().Format(time.RFC3339),
		duration.HumanDuration(max(0, next.Sub(now))))
}

// coolingCells returns how many cells of a bar stand for what cools: one at least, if anything does.
func coolingCells(pool *ipamv1alpha1.IPPool, full, width int) int {
	cooling := space.Cooling(pool.Status.Capacity)
	if cooling.Sign() == 0 {
		return 0
	}
	total, ok := new(big.Int).SetString(pool.Status.Capacity.Total, 10)
	if !ok || total.Sign() == 0 {
		return 0
	}
	share, _ := new(big.Rat).SetFrac(cooling, total).Float64()
	return min(full, max(1, int(math.Round(share*float64(width)))))
}
