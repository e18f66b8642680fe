package pool

import (
	"fmt"
	"math"
	"math/big"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/internal/plural"
)

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

// coolingCells is how many cells of a bar stand for what cools: one at least, if anything does.
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
