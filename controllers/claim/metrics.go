package claim

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// The values of the label reason are the closed list of reasons. The values of the label result are the three below.
var (
	durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "ipam_allocation_duration_seconds",
		Help: "Time of a look at a claim that ended with its block (bound), " +
			"with a reason (refused) or with a fault (failed), writes included.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	}, []string{"result"})
	refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ipam_claim_refusals_total",
		Help: "Refusals and faults that were news to their claim, by reason.",
	}, []string{"reason"})
	corrections = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ipam_claim_corrections_total",
		Help: "Claims that showed a block which the ledger had not given to them, and whose status was corrected.",
	})
	unmet = &lacks{}
)

const (
	resultBound   = "bound"
	resultRefused = "refused"
	resultFailed  = "failed"
)

func init() { metrics.Registry.MustRegister(durations, refusals, corrections, unmet) }

var (
	unmetClaims = prometheus.NewDesc("ipam_unmet_claims",
		"Claims that were refused, or failed, when they were last looked at, by reason.", []string{"reason"}, nil)
	unmetOldest = prometheus.NewDesc("ipam_unmet_claims_oldest_timestamp_seconds",
		"When the oldest of them was made, or began to fail, in seconds since 1970.", []string{"reason"}, nil)
)

// lacks has the claims that have no block, or cannot be brought up to date, each with the reason and since when. It is
// a prometheus.Collector that counts them by reason. The zero value is empty; safe for concurrent use.
type lacks struct {
	mu     sync.Mutex
	claims map[mcreconcile.Request]lack
}

// lack is the state of one claim.
type lack struct {
	reason ipamv1alpha1.Reason
	since  time.Time
}

// note counts a claim under a reason. A claim that is counted already keeps its time.
func (l *lacks) note(claim mcreconcile.Request, reason ipamv1alpha1.Reason, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.claims[claim]; ok {
		since = known.since
	}
	if l.claims == nil {
		l.claims = map[mcreconcile.Request]lack{}
	}
	l.claims[claim] = lack{reason, since}
}

// knows reports whether the claim is counted.
func (l *lacks) knows(claim mcreconcile.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.claims[claim]
	return known
}

// remove stops counting the claim.
func (l *lacks) remove(claim mcreconcile.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.claims, claim)
}

// leave stops counting the claims of a workspace.
func (l *lacks) leave(cluster multicluster.ClusterName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for claim := range l.claims {
		if claim.ClusterName == cluster {
			delete(l.claims, claim)
		}
	}
}

// Describe implements prometheus.Collector.
func (l *lacks) Describe(ch chan<- *prometheus.Desc) { ch <- unmetClaims; ch <- unmetOldest }

// Collect implements prometheus.Collector.
func (l *lacks) Collect(ch chan<- prometheus.Metric) {
	counts, oldest := l.sum()
	for reason, count := range counts {
		ch <- prometheus.MustNewConstMetric(unmetClaims, prometheus.GaugeValue, float64(count), string(reason))
		ch <- prometheus.MustNewConstMetric(unmetOldest, prometheus.GaugeValue,
			float64(oldest[reason].Unix()), string(reason))
	}
}

// sum counts the claims by reason, and finds the oldest time of each reason.
func (l *lacks) sum() (counts map[ipamv1alpha1.Reason]int, oldest map[ipamv1alpha1.Reason]time.Time) {
	counts, oldest = map[ipamv1alpha1.Reason]int{}, map[ipamv1alpha1.Reason]time.Time{}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, claim := range l.claims {
		if first, ok := oldest[claim.reason]; !ok || claim.since.Before(first) {
			oldest[claim.reason] = claim.since
		}
		counts[claim.reason]++
	}
	return counts, oldest
}
