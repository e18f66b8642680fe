package adopt

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	frozen = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ipam_adopt_frozen_pools",
		Help: "Pools that give nothing out because the ledger has lost changes to their space.",
	})
	records = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ipam_adopt_records_total",
		Help: "Published records that were compared with a ledger that had lost changes, and adopted where it lacked them.",
	})
	unplaced = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ipam_adopt_unplaced_records",
		Help: "Published records that the last adoption could not place: no pool is found for them, or a claim alone shows addresses of others, or of a pool that does not admit it.",
	})
	failures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ipam_adopt_failures_total",
		Help: "Attempts to make the ledger whole again that could not do everything.",
	})
)

func init() { metrics.Registry.MustRegister(frozen, records, unplaced, failures) }
