package recover

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	found = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ipam_verify_findings",
		Help: "Differences between the ledger and what is published, by kind, as of the last verification.",
	}, []string{"kind"})
	revision = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ipam_verify_revision",
		Help: "The revision of the ledger that was verified last.",
	})
	lastSuccess = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ipam_verify_last_success_timestamp_seconds",
		Help: "When everything was last verified, in seconds since 1970.",
	})
	interval = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ipam_verify_interval_seconds",
		Help: "Time between two verifications: --verify-interval, or longer if the last one took long.",
	})
	durations = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "ipam_verify_duration_seconds",
		Help:    "Time of a verification that looked at everything, the pause before a second look included.",
		Buckets: prometheus.ExponentialBuckets(0.1, 4, 10),
	})
	failures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ipam_verify_failures_total",
		Help: "Verifications that could not look at everything.",
	})

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
		Help: "Published records that the last adoption could not place: " +
			"no pool is found for them, or a claim alone shows addresses of others, or of a pool that does not admit it.",
	})
	unfinished = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ipam_adopt_failures_total",
		Help: "Attempts to make the ledger whole again that could not do everything.",
	})
)

func init() {
	metrics.Registry.MustRegister(found, revision, lastSuccess, interval, durations, failures, frozen, records,
		unplaced, unfinished)
}

// export shows the report as metrics.
func (r Report) export() {
	counts := map[Kind]int{}
	for _, f := range r.Findings {
		counts[f.Kind]++
	}
	for _, kind := range Kinds() {
		found.WithLabelValues(string(kind)).Set(float64(counts[kind]))
	}
	revision.Set(float64(r.Revision))
	lastSuccess.Set(float64(r.Time.Unix()))
}
