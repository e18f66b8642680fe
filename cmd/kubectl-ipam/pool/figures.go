package pool

import (
	"fmt"
	"io"
	"math"
	"net/netip"
	"slices"
	"strings"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page/draw"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// These are the columns and rows of the map of a pool, both powers of two. The map fits into 80 characters.
const (
	mapColumns = 32
	mapRows    = 16
)

// drawMap prints the space of a pool as text. Each line begins with its first address.
func drawMap(w io.Writer, p *space.Pool) {
	s := p.Space()
	parts, width := partsOf(s.Pool), 0
	var stay []netip.Prefix // blocks in an exclusion, which somebody has to release before their part is empty
	legend := "× kept back"
	for _, block := range s.Taken {
		if _, excluded := p.StaysIn(block); excluded {
			stay, legend = append(stay, block), "× kept back, ! excluded and still held"
		}
	}
	screen.Line(w, "each sign is a /%d: █ taken, ▓ ░ in part, %s, · free or not shown to you", parts[0].Bits(), legend)
	for row := range slices.Chunk(parts, mapColumns) {
		width = max(width, len(row[0].Addr().String()))
	}
	rest := signs(s, parts, stay)
	for row := range slices.Chunk(parts, mapColumns) {
		screen.Line(w, "  %-*s  %s", width, row[0].Addr(), strings.Join(rest[:len(row)], ""))
		rest = rest[len(row):]
	}
}

// partsOf returns the prefixes of the signs on the map, in order.
func partsOf(pool netip.Prefix) []netip.Prefix {
	parts := []netip.Prefix{pool}
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

// signs returns the sign of each part. It draws each part as a map with a single box. A part with a block in stay is
// marked.
func signs(s space.Space, parts, stay []netip.Prefix) []string {
	blocks := make([]draw.Block, 0, len(s.Kept)+len(s.Taken))
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
		case excludedIn(part, stay):
			signs[i] = "!"
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

func excludedIn(part netip.Prefix, stay []netip.Prefix) bool {
	_, found := space.FirstOverlap(stay, part)
	return found
}

// bar draws how much of a pool is taken, such as ████░░░░ 50.0%.
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
	return level(p, percent, strings.Repeat(taken, full)+strings.Repeat("░", width-full)) +
		screen.Tinted(fmt.Sprintf("  %6s", ipamv1alpha1.UtilizationColumn(percent)))
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
