package pool

import (
	"fmt"
	"io"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page/draw"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// spaceMap draws the space of a pool as text.
type spaceMap struct{ space.Space }

// The map is drawn in so many columns and rows, powers of two; in fewer columns and more rows
// where lines are short.
const (
	mapColumns = 64
	mapRows    = 8
)

// parts returns the prefixes that the signs of the map stand for, in order.
func (s spaceMap) parts() []netip.Prefix {
	parts := []netip.Prefix{s.Pool}
	for len(parts) < mapColumns*mapRows && !parts[0].IsSingleIP() {
		halves := make([]netip.Prefix, 0, 2*len(parts))
		for _, part := range parts {
			low, high := cidr.Halves(part)
			halves = append(halves, low, high)
		}
		parts = halves
	}
	return parts
}

// signs returns a sign for each part: each is a map of its own, with one box.
func (s spaceMap) signs(parts []netip.Prefix) []string {
	var blocks []draw.Block
	for _, kept := range s.Kept {
		blocks = append(blocks, draw.Block{Prefix: kept, Kind: draw.Kept})
	}
	for _, taken := range s.Taken {
		blocks = append(blocks, draw.Block{Prefix: taken, Kind: draw.Own})
	}
	draw.Sort(blocks)
	signs := make([]string, len(parts))
	for i, part := range parts {
		switch box := (draw.Map{Window: part, Blocks: blocks, Limit: 1}).Boxes()[0]; {
		case box.Kind == draw.Kept:
			signs[i] = "×"
		case box.Share >= 1:
			signs[i] = "█"
		case box.Share > 0.5:
			signs[i] = "▓"
		case box.Share > 0:
			signs[i] = "░"
		default:
			signs[i] = "·"
		}
	}
	return signs
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
	parts, columns, width := s.parts(), s.columns(lineWidth), 0
	signs := s.signs(parts)
	screen.Line(w, "each sign is a /%d: █ taken, ▓ ░ in part, × kept back, · free or not shown to you", parts[0].Bits())
	for row := range slices.Chunk(parts, columns) {
		width = max(width, len(row[0].Addr().String()))
	}
	for at := 0; at < len(parts); at += columns {
		screen.Line(w, "  %-*s  %s", width, parts[at].Addr(), strings.Join(signs[at:min(at+columns, len(signs))], ""))
	}
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
