package sweep

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// maxNamed is how many pools with orphans the metrics name. Tenants can make any number of pools: those beyond maxNamed
// are counted together, under no name.
const maxNamed = 100

var (
	orphans = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ipam_sweep_orphans",
		Help: "Blocks of a pool whose holder two sweeps in a row did not find. " +
			"The labels are empty for what is beyond 100 pools.",
	}, []string{"cluster", "pool"})
	braked = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ipam_sweep_braked",
		Help: "1 for a pool that has too many orphans for a sweep to free them by itself.",
	}, []string{"cluster", "pool"})
	lastPass = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ipam_sweep_last_success_timestamp_seconds",
		Help: "When a sweep last looked at every block, in seconds since 1970.",
	})
	durations = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "ipam_sweep_duration_seconds",
		Help:    "Time of a sweep that looked at every block, without the pauses between its parts.",
		Buckets: prometheus.ExponentialBuckets(0.01, 4, 10),
	})
	failures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ipam_sweep_failures_total",
		Help: "Sweeps that could not look at every block.",
	})
)

func init() { metrics.Registry.MustRegister(orphans, braked, lastPass, durations, failures) }
