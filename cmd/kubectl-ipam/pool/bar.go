package pool

import (
	"fmt"
	"math"
	"strings"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
)

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
