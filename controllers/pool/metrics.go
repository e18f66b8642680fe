package pool

import (
	"math/big"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/internal/forecast"
)

// Only pools of the platform are shown, because tenants can make any number of pools. Addresses are counted in floating
// point, exact to 16 digits.
var (
	addresses = prometheus.NewDesc("ipam_pool_addresses",
		"Addresses of a pool of the platform.", []string{"pool"}, nil)
	allocated = prometheus.NewDesc("ipam_pool_allocated_addresses",
		"Addresses of a pool of the platform that are allocated, reserved or excluded.", []string{"pool"}, nil)
	blocks = prometheus.NewDesc("ipam_pool_blocks",
		"Blocks that claims and child pools hold of a pool of the platform.", []string{"pool"}, nil)
	freeBlocks = prometheus.NewDesc("ipam_pool_free_blocks",
		"Free blocks of a pool of the platform, by prefix length, as the fewest that its free space can be seen as; "+
			"lengths without a free block are absent.",
		[]string{"pool", "prefix_length"}, nil)
	largestFree = prometheus.NewDesc("ipam_pool_largest_free_prefix_length",
		"Prefix length of the largest free block of a pool of the platform; absent when it is full.", []string{"pool"}, nil)

	full = prometheus.NewDesc("ipam_pool_full_seconds",
		"Seconds until a pool of the platform is full, at the rate of the last day, week and month; "+
			"absent if it is not full within ten years at that rate, or there is too little data.",
		[]string{"pool", "window"}, nil)

	shown = &figures{now: time.Now}
)

func init() { metrics.Registry.MustRegister(shown) }

// figures has the figures of pools by name, as last reported. It is a prometheus.Collector. Safe for concurrent use.
type figures struct {
	now   func() time.Time
	mu    sync.Mutex
	pools map[string]figure
}

// figure says what one pool holds, and what is free of it.
type figure struct {
	ledger.Capacity
	free    index.Histogram
	samples forecast.Samples
}

// show sets the figure of a pool in the metrics.
func (f *figures) show(pool string, holds figure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pools == nil {
		f.pools = map[string]figure{}
	}
	f.pools[pool] = holds
}

// hide removes a pool that is gone from the metrics.
func (f *figures) hide(pool string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pools, pool)
}

// Describe implements prometheus.Collector.
func (f *figures) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{addresses, allocated, blocks, freeBlocks, largestFree, full} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (f *figures) Collect(ch chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for pool, holds := range f.pools {
		gauge(addresses, float(holds.Total), pool)
		gauge(allocated, float(holds.Allocated), pool)
		gauge(blocks, float64(holds.Blocks), pool)
		if holds.LargestFree >= 0 {
			gauge(largestFree, float64(holds.LargestFree), pool)
		}
		for length, count := range holds.free {
			if count > 0 {
				gauge(freeBlocks, float64(count), pool, strconv.Itoa(length))
			}
		}
		for _, w := range forecast.Windows {
			if at := holds.samples.Full(f.now(), holds.Allocated, holds.Available, w); at.State == forecast.Fills {
				gauge(full, at.In.Seconds(), pool, w.Name)
			}
		}
	}
}

func float(n *big.Int) float64 {
	f, _ := new(big.Float).SetInt(n).Float64()
	return f
}
