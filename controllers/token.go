package controllers

import (
	"fmt"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kcp-ipam/ipam/internal/build"
)

var tokenEnd = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "ipam_token_end_timestamp_seconds",
	Help: "When the token in the kubeconfig of a server ends, since 1970: " +
		"the one of kcp (platform), or with the command capi those of the workspace and of the management cluster. " +
		"Absent for an access that is renewed or does not end.",
}, []string{"server"})

func init() { metrics.Registry.MustRegister(tokenEnd) }

// ObserveToken exports when the token for a server ends, if nothing renews the token. A token from a file or a plugin
// is renewed from outside.
func ObserveToken(server string, cfg *rest.Config) error {
	if cfg.BearerToken == "" || cfg.BearerTokenFile != "" {
		return nil
	}
	claims := &jwt.RegisteredClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(cfg.BearerToken, claims); err != nil {
		return nil //nolint:nilerr // It is no token of a service account. Only the server knows when it ends.
	}
	end, err := claims.GetExpirationTime()
	if err != nil {
		return fmt.Errorf("the token of the %s: %w", server, err)
	}
	if end != nil {
		tokenEnd.WithLabelValues(server).Set(float64(end.Unix()))
	}
	return nil
}

// seen is the time when a server last answered this replica.
var seen = prometheus.NewGauge(prometheus.GaugeOpts{
	Name: "ipam_server_seen_timestamp_seconds",
	Help: "When the API server has last answered a live read of this replica, by Unix time. " +
		"After 30 seconds without an answer it leaves CREATEs unanswered.",
})

func init() {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ipam_build_info", Help: "1, with the versions of the controller and of the Go that built it.",
	}, []string{"version", "go"})
	info.WithLabelValues(build.Version(), build.Go()).Set(1)
	metrics.Registry.MustRegister(info, seen)
}
