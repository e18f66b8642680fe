package tenants

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	workspaces = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ipam_workspaces",
		Help: "Workspaces by state: bound to the export, and engaged, which are those of them that are served, " +
			"or followed by a standby.",
	}, []string{"state"})
	endpoints = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ipam_endpoints",
		Help: "Endpoints of the export, one for each shard that has a binding, by state: " +
			"listed by the endpoint slice, and filled, which are those of them whose objects were all listed.",
	}, []string{"state"})
	partial = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ipam_endpoint_slice_partial",
		Help: "1 if the endpoint slice may lack endpoints, so that nothing follows from what no endpoint shows.",
	})

	boundWorkspaces   = workspaces.WithLabelValues("bound")
	engagedWorkspaces = workspaces.WithLabelValues("engaged")
	listedEndpoints   = endpoints.WithLabelValues("listed")
	filledEndpoints   = endpoints.WithLabelValues("filled")
)

func init() { metrics.Registry.MustRegister(workspaces, endpoints, partial) }
