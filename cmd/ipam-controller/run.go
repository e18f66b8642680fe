package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/controllers"
	"github.com/kcp-ipam/ipam/controllers/directory"
	"github.com/kcp-ipam/ipam/controllers/inbox"
)

// shutdownGrace is how long what is under way may take to end at shutdown.
const shutdownGrace = 20 * time.Second

// run serves until the context ends.
func run(ctx context.Context, opts *options) error {
	logger := newLogger(opts.verbosity)
	log.SetLogger(logger)
	klog.SetLogger(logger.WithName("client"))
	ctx = log.IntoContext(ctx, logger)

	scheme, err := controllers.Scheme()
	if err != nil {
		return err
	}
	ground, err := findGround(ctx, opts, scheme)
	if err != nil {
		return err
	}
	logger.Info("platform found", "workspace", ground.platform.Path, "cluster", ground.platform.Cluster)

	tracer, flush, err := startTraces(ctx, opts.traces)
	if err != nil {
		return err
	}
	defer flush()
	store, err := openStore(ctx, opts)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-store.failed:
			cancel()
		case <-ctx.Done():
		}
	}()
	known := directory.New(ground.platform)
	news := inbox.New(known)
	ledger, err := allocator.Open(ctx, store.client, allocator.Options{
		Prefix:     opts.etcdPrefix,
		MaxTxnOps:  store.txnOps,
		Frozen:     true,
		Wake:       news.Wake,
		Changed:    news.Changed,
		Logger:     slog.New(logr.ToSlogHandler(logger.WithName("ledger"))),
		Registerer: metrics.Registry,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("open the ledger: %w", err), store.Close())
	}
	news.Serve(ledger)
	err = serve(ctx, opts, controllers.Options{
		Config: ground.config, Export: ground.export, Scheme: scheme, Directory: known, Inbox: news, Ledger: ledger, Workers: opts.workers,
		Tracer: tracer, Logger: logger,
		Sweep: opts.sweep, Verify: opts.verifying(store), VerifySocket: opts.socket(),
		Consumer: opts.consumers(),
	})
	return errors.Join(err, store.err(), ledger.Close(), store.Close())
}

// serve runs the controllers until the context ends.
func serve(ctx context.Context, opts *options, c controllers.Options) error {
	grace := shutdownGrace
	metrics, err := opts.metrics()
	if err != nil {
		return fmt.Errorf("--metrics-certfile, --metrics-keyfile, --metrics-client-cafile: %w", err)
	}
	c.Manager = manager.Options{
		Metrics:                 metrics,
		HealthProbeBindAddress:  opts.probeAddress,
		PprofBindAddress:        opts.pprofAddress,
		GracefulShutdownTimeout: &grace,
		BaseContext:             func() context.Context { return log.IntoContext(context.Background(), log.FromContext(ctx)) },
	}
	opts.election.configure(&c.Manager)
	mgr, err := controllers.New(ctx, c)
	if err != nil {
		return err
	}
	log.FromContext(ctx).Info("serving", "server", c.Config.Host, "workers", opts.workers)
	return mgr.Start(ctx)
}
