package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers"
	"github.com/kcp-ipam/ipam/controllers/claim"
	"github.com/kcp-ipam/ipam/internal/build"
)

// shutdownGrace is how long requests and reconciles may take to end at shutdown.
const shutdownGrace = 20 * time.Second

// run serves until the context ends.
func run(ctx context.Context, opts *options) error {
	ctx = opts.logged(ctx)
	logger := log.FromContext(ctx)
	ground, err := findGround(ctx, opts)
	if err != nil {
		return err
	}
	logger.Info("platform found", "workspace", ground.Platform.Path, "cluster", ground.Platform.Cluster)

	tracer, flush, err := startTraces(ctx, opts.traces)
	if err != nil {
		return err
	}
	defer flush()
	store, err := openStore(ctx, opts)
	if err != nil {
		return err
	}
	if len(opts.etcdServers) == 0 {
		metrics.Registry.MustRegister(embedetcd.Metrics())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go endWith(ctx, store.failed, cancel)
	ledger := controllers.NewLedger(store.client, ground.Platform, allocator.Options{
		Prefix:     opts.etcdPrefix,
		Origin:     opts.identity,
		MaxTxnOps:  store.txnOps,
		History:    opts.history,
		MaxHistory: opts.historyMax,
		Logger:     slog.New(logr.ToSlogHandler(logger.WithName("ledger"))),
		Registerer: metrics.Registry,
	})
	err = serve(ctx, opts, controllers.Options{
		Ground: ground, Ledger: ledger, DerivedPoolIdle: opts.derivedIdle, Logger: logger,
		Claims: claim.Options{
			Workers: opts.workers, Unmet: ipamv1alpha1.UnmetPolicy(opts.unmet), MaxPools: opts.maxPools,
			MaxWaits: opts.maxWaits, Tracer: tracer,
		},
		Sweep: opts.sweeping(), Verify: opts.verifying(store), VerifySocket: opts.socket(), History: opts.reader(store),
		Snapshot:   store.snapshot,
		ClusterAPI: opts.capi, ClusterAPIScope: opts.capiScope,
	})
	return errors.Join(err, store.err(), ledger.Close(), store.Close())
}

// logged begins the log with a line about the version, and returns a context with the logger.
func (o *options) logged(ctx context.Context) context.Context {
	logger := newLogger(o.verbosity)
	log.SetLogger(logger)
	klog.SetLogger(logger.WithName("client"))
	logger.Info("starting", "version", build.Version(), "go", build.Go())
	return log.IntoContext(ctx, logger)
}

// endWith ends the process when failed is closed: a part of it cannot go on. When it is started again, the process
// reads everything again.
func endWith(ctx context.Context, failed <-chan struct{}, end context.CancelFunc) {
	select {
	case <-failed:
		end()
	case <-ctx.Done():
	}
}

// serve runs the controllers until the context ends.
func serve(ctx context.Context, opts *options, c controllers.Options) error {
	checked := &probes{}
	servers, err := opts.servers(ctx, checked)
	if err != nil {
		return err
	}
	if c.Door, err = opts.webhooks.listen(ctx); err != nil {
		return err
	}
	c.Probes = checked
	c.Manager = opts.managerOptions(ctx)
	mgr, err := controllers.New(ctx, c)
	if err != nil {
		return err
	}
	for _, server := range servers {
		if err := mgr.GetLocalManager().Add(server); err != nil {
			return err
		}
	}
	log.FromContext(ctx).Info("serving", "server", c.Config.Host, "workers", opts.workers)
	return mgr.Start(ctx)
}

// managerOptions returns the options that the managers of all commands share.
func (o *options) managerOptions(ctx context.Context) manager.Options {
	made := manager.Options{
		Metrics:                 metricsserver.Options{BindAddress: nowhere}, // method servers makes that server
		PprofBindAddress:        o.pprofAddress,
		GracefulShutdownTimeout: new(shutdownGrace),
		BaseContext: func() context.Context {
			return log.IntoContext(context.Background(), log.FromContext(ctx))
		},
	}
	o.election.configure(&made)
	return made
}
