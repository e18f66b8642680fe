package engine

import (
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/prometheus/client_golang/prometheus"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// metrics of one Allocator. None has labels but for the members of etcd, so their
// number does not grow with pools or workspaces.
type metrics struct {
	transactions prometheus.Histogram
	groups       prometheus.Histogram
	Attempts     prometheus.Histogram
	queued       prometheus.Gauge
	waiting      prometheus.GaugeFunc
	conflicts    prometheus.Counter
	Bound        prometheus.Counter
	Released     prometheus.Counter
	unreadable   prometheus.GaugeFunc
	reserved     prometheus.GaugeFunc
	cooling      prometheus.GaugeFunc
	history      prometheus.Gauge
	forgotten    prometheus.Counter
	members      store.Members

	unregister func() // takes back what was registered
}

// counts are what is counted when the metrics are collected.
type counts struct{ unreadable, reserved, cooling, waiting func() int }

// counts are those of the Allocator.
func (eng *Engine) counts() counts {
	return counts{
		unreadable: eng.Unreadable,
		reserved:   eng.Table.Reservations.Len,
		cooling:    eng.CountCooling,
		waiting:    func() int { return int(eng.Table.Waiting.Load()) },
	}
}

// CountCooling counts the cooling blocks of all spaces.
func (eng *Engine) CountCooling() (n int) {
	for _, w := range eng.Workers() {
		w.Read(func() { n += len(w.Cooling.Blocks) })
	}
	return n
}

func newMetrics(client *clientv3.Client, count counts) *metrics {
	return &metrics{
		reserved: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ipam_ledger_reservations", Help: "Blocks reserved for claims whose CREATE was answered, and that nobody has confirmed yet.",
		}, func() float64 { return float64(count.reserved()) }),
		cooling: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ipam_ledger_cooling_blocks", Help: "Blocks that were freed, and are given to nobody until their cooldown is over.",
		}, func() float64 { return float64(count.cooling()) }),
		history: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ipam_ledger_history_records", Help: "Records of former holders in the ledger, as the leader last counted them.",
		}),
		forgotten: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ipam_ledger_history_pruned_total", Help: "Records of former holders that this process has deleted, as too old or too many.",
		}),
		unreadable: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ipam_ledger_unreadable_keys", Help: "Keys of the ledger that cannot be read, each of which stops its space.",
		}, func() float64 { return float64(count.unreadable()) }),
		unregister: func() {},
		members:    store.Members{Client: client},
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
		queued: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ipam_ledger_queued_requests", Help: "Requests that wait for a transaction, over all spaces.",
		}),
		waiting: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ipam_ledger_waiting_claims", Help: "Claims that wait for room, over all pools.",
		}, func() float64 { return float64(count.waiting()) }),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ipam_ledger_conflicts_total", Help: "Transactions that failed because another writer came first.",
		}),
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
		m.transactions, m.groups, m.Attempts, m.queued, m.waiting, m.conflicts, m.Bound, m.Released, m.unreadable, m.reserved, m.cooling, m.history, m.forgotten, m.members,
	}
}

// register hands the metrics to a registry, until they are unregistered. A nil
// registry takes none.
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
