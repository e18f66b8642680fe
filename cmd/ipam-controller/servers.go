package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// nowhere is the address for a server that is turned off.
const nowhere = "0"

// limits of an HTTP server. All fields are required.
type limits struct {
	// connections is the number of open connections; one more closes the oldest.
	connections int
	// read is the deadline for reading a request.
	read time.Duration
	// write is the deadline for writing the response, from the end of the request's header.
	write time.Duration
	// idle is how long a connection stays open without a request.
	idle time.Duration
}

// usual are the limits of the metrics server and of the probe server.
var usual = limits{connections: 64, read: 5 * time.Second, write: 30 * time.Second, idle: 90 * time.Second}

// server makes an HTTP server for a manager to run. It opens the listener at once. If secure is not nil, it serves TLS.
func (l limits) server(
	ctx context.Context, name, address string, secure *tls.Config, handler http.Handler,
) (*manager.Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve the %s: %w", name, err)
	}
	listener = &bounded{Listener: listener, most: l.connections}
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	return &manager.Server{
		Name:     name,
		Listener: listener,
		Server: &http.Server{
			Handler: handler, MaxHeaderBytes: 1 << 16,
			ReadHeaderTimeout: l.read, ReadTimeout: l.read, WriteTimeout: l.write, IdleTimeout: l.idle,
		},
		ShutdownTimeout: new(l.read),
	}, nil
}

// servers makes the servers for metrics and for probes, in this order, as far as the options ask for them.
func (o *options) servers(ctx context.Context, checked *probes) ([]*manager.Server, error) {
	var wanted []*manager.Server
	if address := cmp.Or(o.metricsAddress, ":8080"); address != nowhere {
		secure, err := o.metricsTLS()
		if err != nil {
			return nil, fmt.Errorf("--metrics-certfile, --metrics-keyfile, --metrics-client-cafile: %w", err)
		}
		server, err := usual.server(ctx, "metrics", address, secure, metricsHandler())
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, server)
	}
	if o.probeAddress == "" || o.probeAddress == nowhere {
		return wanted, nil
	}
	server, err := usual.server(ctx, "probes", o.probeAddress, nil, checked.handler())
	return append(wanted, server), err
}

// metricsHandler serves /metrics.
func metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics",
		promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	return mux
}

// probes are the checks behind /healthz and /readyz. The zero value has no checks. All checks must be added before the
// server starts.
type probes struct {
	healthz, readyz healthz.Handler
}

// AddHealthzCheck adds a check to /healthz.
func (p *probes) AddHealthzCheck(name string, check healthz.Checker) error {
	return add(&p.healthz, name, check)
}

// AddReadyzCheck adds a check to /readyz.
func (p *probes) AddReadyzCheck(name string, check healthz.Checker) error {
	return add(&p.readyz, name, check)
}

func add(to *healthz.Handler, name string, check healthz.Checker) error {
	if to.Checks == nil {
		to.Checks = map[string]healthz.Checker{}
	}
	to.Checks[name] = check
	return nil
}

// handler serves /healthz and /readyz. Each check has a path below them, such as /readyz/ledger.
func (p *probes) handler() http.Handler {
	mux := http.NewServeMux()
	for path, checks := range map[string]http.Handler{"/healthz": &p.healthz, "/readyz": &p.readyz} {
		mux.Handle("GET "+path, http.StripPrefix(path, checks))
		mux.Handle("GET "+path+"/", http.StripPrefix(path, checks))
	}
	return mux
}
