package pool

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/internal/plural"
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
