package allocator

import "github.com/prometheus/client_golang/prometheus"

// metrics of one Allocator. None has labels, so their number does not grow with
// pools or workspaces.
type metrics struct {
	transactions prometheus.Histogram
	groups       prometheus.Histogram
	queued       prometheus.Gauge
	waiting      prometheus.Gauge
	conflicts    prometheus.Counter
	bound        prometheus.Counter
	released     prometheus.Counter

	registerer prometheus.Registerer
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		registerer: r,
		transactions: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ipam_ledger_transaction_seconds", Help: "Time etcd took for the transaction of a group.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
		groups: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ipam_ledger_group_requests", Help: "Number of requests that shared one transaction.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}),
		queued: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ipam_ledger_queued_requests", Help: "Requests that wait for a transaction, over all spaces.",
		}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ipam_ledger_waiting_claims", Help: "Claims that wait for room, over all pools.",
		}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ipam_ledger_conflicts_total", Help: "Transactions that failed because another writer came first.",
		}),
		bound: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ipam_ledger_blocks_bound_total", Help: "Blocks bound by this process.",
		}),
		released: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ipam_ledger_blocks_released_total", Help: "Blocks freed by this process.",
		}),
	}
	return m, m.register()
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.transactions, m.groups, m.queued, m.waiting, m.conflicts, m.bound, m.released}
}

func (m *metrics) register() error {
	if m.registerer == nil {
		return nil
	}
	for _, c := range m.all() {
		if err := m.registerer.Register(c); err != nil {
			return err
		}
	}
	return nil
}

func (m *metrics) unregister() {
	if m.registerer == nil {
		return
	}
	for _, c := range m.all() {
		m.registerer.Unregister(c)
	}
}
