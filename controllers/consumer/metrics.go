package consumer

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
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
	braked = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ipam_consumer_braked",
		Help: "1 for a workspace of which too many claims seem abandoned for any to be deleted.",
	}, []string{"cluster"})
)

func init() { metrics.Registry.MustRegister(checks, deleted, braked) }
