package pool

import (
	"math/big"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kcp-ipam/ipam/allocator"
)

// Only the platform's own pools are shown: how many pools tenants have is for
// them to choose. Addresses are counted in floating point, exact to 16 digits.
var (
	addresses = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ipam_pool_addresses",
		Help: "Addresses of a pool of the platform.",
	}, []string{"pool"})
	allocated = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ipam_pool_allocated_addresses",
		Help: "Addresses of a pool of the platform that are allocated, reserved or excluded.",
	}, []string{"pool"})
	blocks = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ipam_pool_blocks",
		Help: "Blocks that claims and child pools hold of a pool of the platform.",
	}, []string{"pool"})
	largestFree = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ipam_pool_largest_free_prefix_length",
		Help: "Prefix length of the largest free block of a pool of the platform; absent when it is full.",
	}, []string{"pool"})
)

func init() { metrics.Registry.MustRegister(addresses, allocated, blocks, largestFree) }

// show has the metrics say what a pool holds.
func show(pool string, c allocator.Capacity) {
	addresses.WithLabelValues(pool).Set(float(c.Total))
	allocated.WithLabelValues(pool).Set(float(c.Allocated))
	blocks.WithLabelValues(pool).Set(float64(c.Blocks))
	if c.LargestFree < 0 {
		largestFree.DeleteLabelValues(pool)
		return
	}
	largestFree.WithLabelValues(pool).Set(float64(c.LargestFree))
}

// hide takes a pool that is gone out of the metrics.
func hide(pool string) {
	for _, m := range []*prometheus.GaugeVec{addresses, allocated, blocks, largestFree} {
		m.DeleteLabelValues(pool)
	}
}

func float(n *big.Int) float64 {
	f, _ := new(big.Float).SetInt(n).Float64()
	return f
}
