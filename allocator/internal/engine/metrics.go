package engine

import (
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of one Allocator. Only the metrics of etcd's members have labels, so the number of series does not
// grow with pools or workspaces.
type metrics struct {
	transactions prometheus.Histogram
	groups       prometheus.Histogram
	Attempts     prometheus.Histogram
	queued       prometheus.GaugeFunc
	waiting      prometheus.GaugeFunc
	Bound        prometheus.Counter
	Released     prometheus.Counter
	unreadable   prometheus.GaugeFunc
	cooling      prometheus.GaugeFunc
	history      prometheus.Gauge
	forgotten    prometheus.Counter
	members      store.Members

	unregister func() // unregisters what was registered
}

// CountBind counts a bind that was committed, and the transactions that it took part in.
func (m *metrics) CountBind(attempts int) {
	m.Bound.Inc()
	m.Attempts.Observe(float64(attempts))
}

// Unreadable counts the keys that cannot be read.
func (eng *Engine) Unreadable() int {
	return len(eng.Table.Damaged()) + eng.Spaces.Count(func(s *Space) int { return len(s.Damage) })
}

// gauge returns a metric that is counted when the metrics are collected.
func gauge(name, help string, count func() int) prometheus.GaugeFunc {
	opts := prometheus.GaugeOpts{Name: name, Help: help}
	return prometheus.NewGaugeFunc(opts, func() float64 { return float64(count()) })
}

func newMetrics(eng *Engine) *metrics {
	return &metrics{
		cooling: gauge("ipam_ledger_cooling_blocks",
			"Blocks that were freed, and are given to nobody until their cooldown is over.", eng.Spaces.CountCooling),
		history: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ipam_ledger_history_records",
			Help: "Records of former holders in the ledger, as the leader last counted them.",
		}),
		forgotten: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ipam_ledger_history_pruned_total",
			Help: "Records of former holders that this process has deleted, as too old or too many.",
		}),
		unreadable: gauge("ipam_ledger_unreadable_keys", "Keys of the ledger that cannot be read. Each stops its space.",
			eng.Unreadable),
		unregister: func() {},
		members:    store.Members{Client: eng.store.Client},
		transactions: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ipam_ledger_transaction_seconds", Help: "Time etcd took for the transaction of a group.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
		groups: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ipam_ledger_group_requests", Help: "Number of requests that shared one transaction.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}),
		Attempts: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ipam_ledger_bind_attempts", Help: "Number of transactions that a bind was part of until it had its block.",
			Buckets: []float64{1, 2, 3, 5, 8, 13, 21},
		}),
		queued: gauge("ipam_ledger_queued_requests", "Requests that wait for a transaction.",
			eng.Writer.Queued),
		waiting: gauge("ipam_ledger_waiting_claims", "Claims that wait for room, over all pools.",
			func() int { return int(eng.Table.Waiting.Load()) }),
		Bound: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ipam_ledger_blocks_bound_total", Help: "Blocks bound by this process.",
		}),
		Released: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ipam_ledger_blocks_released_total", Help: "Blocks freed by this process.",
		}),
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		m.transactions, m.groups, m.Attempts, m.queued, m.waiting, m.Bound, m.Released, m.unreadable, m.cooling,
		m.history, m.forgotten, m.members,
	}
}

// register registers the metrics, until unregister is called. A nil registry takes none.
func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	var registered []prometheus.Collector
	m.unregister = func() {
		for _, c := range registered {
			r.Unregister(c)
		}
	}
	for _, c := range m.all() {
		if err := r.Register(c); err != nil {
			return err
		}
		registered = append(registered, c)
	}
	return nil
}
