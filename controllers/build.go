package controllers

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kcp-ipam/ipam/internal/build"
)

// seen is when a server has answered this replica last.
var seen = prometheus.NewGauge(prometheus.GaugeOpts{
	Name: "ipam_server_seen_timestamp_seconds",
	Help: "When the API server has last answered a live read of this replica, by Unix time. After 30 seconds without an answer it leaves CREATEs unanswered.",
})

func init() {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ipam_build_info", Help: "1, with the versions of the controller and of the Go that built it.",
	}, []string{"version", "go"})
	info.WithLabelValues(build.Version(), build.Go()).Set(1)
	metrics.Registry.MustRegister(info, seen)
}
