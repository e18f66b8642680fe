package sweep

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The labels name pools of the ledger, whose number is bounded by what their
// owners have made.
var (
	orphans = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ipam_sweep_orphans",
		Help: "Blocks of a pool whose holder two sweeps in a row did not find.",
	}, []string{"cluster", "pool"})
	braked = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ipam_sweep_braked",
		Help: "1 for a pool that has too many orphans for a sweep to free them by itself.",
	}, []string{"cluster", "pool"})
	disputes = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ipam_sweep_disputed_blocks",
		Help: "Blocks that two or more published records have addresses of, counted once for each.",
	})
	lastPass = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ipam_sweep_last_success_timestamp_seconds",
		Help: "When a sweep last looked at every block, in seconds since 1970.",
	})
	failures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ipam_sweep_failures_total",
		Help: "Sweeps that could not look at every block.",
	})
)

func init() { metrics.Registry.MustRegister(orphans, braked, disputes, lastPass, failures) }
