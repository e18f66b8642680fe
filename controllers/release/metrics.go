package release

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var expirations = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "ipam_release_expired_total",
	Help: "Retained blocks that were released because their lease was over.",
})

func init() { metrics.Registry.MustRegister(expirations) }
