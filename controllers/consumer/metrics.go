package consumer

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

var (
	checks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ipam_consumer_looks_total",
		Help: "Looks for the consumers of claims, by what they found: Well, a rule by which the consumer is gone, Hidden, Unknown or Failed.",
	}, []string{"result"})
	deleted = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ipam_consumer_claims_deleted_total",
		Help: "Claims deleted because their consumer was gone.",
	})
	brakedDesc = prometheus.NewDesc("ipam_consumer_braked",
		"1 for a workspace with too many claims that seem abandoned for any to be deleted, up to 100 workspaces.", []string{"cluster"}, nil)
	braked = &stops{clock: clock.RealClock{}}
)

// maxNamed is how many workspaces the metrics name at most.
const maxNamed = 100

func init() { metrics.Registry.MustRegister(checks, deleted, braked) }

// stops knows in which workspaces the brake holds. One where it has kept no claim for
// the brake's window is let go, be it that the workspace is. It is a
// prometheus.Collector. It needs a clock; safe for concurrent use.
type stops struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	last  map[ledger.ClusterName]time.Time
}

// hold notes that the brake has kept a claim of the workspace now.
func (s *stops) hold(cluster ledger.ClusterName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[ledger.ClusterName]time.Time{}
	}
	s.last[cluster] = s.clock.Now()
}

// let notes that the brake is free.
func (s *stops) let(cluster ledger.ClusterName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, cluster)
}

// Describe implements prometheus.Collector.
func (s *stops) Describe(ch chan<- *prometheus.Desc) { ch <- brakedDesc }

// Collect implements prometheus.Collector.
func (s *stops) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.last, func(_ ledger.ClusterName, at time.Time) bool { return s.clock.Since(at) > window })
	for i, cluster := range slices.Sorted(maps.Keys(s.last)) {
		if i == maxNamed {
			return
		}
		ch <- prometheus.MustNewConstMetric(brakedDesc, prometheus.GaugeValue, 1, string(cluster))
	}
}
