package sim

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kcp-ipam/ipam/allocator"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers"
	"github.com/kcp-ipam/ipam/controllers/claim"
	"github.com/kcp-ipam/ipam/controllers/consumer"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/sweep"
	"github.com/kcp-ipam/ipam/controllers/verify"
	"github.com/kcp-ipam/ipam/test/sim/simetcd"
	"github.com/kcp-ipam/ipam/test/sim/simkcp"
)

const (
	ledgerPrefix = "/ipam/v1"
	// idle is how long a derived pool that nobody uses stays.
	idle = time.Minute
)

// process is one run of the controller. Its connections are its own, so that a kill cuts them.
type process struct {
	etcd    *simetcd.Link
	kcp     *simkcp.Transport
	door    *listener
	web     *http.Client
	cancel  context.CancelFunc
	elected chan struct{} // closed when all controllers run, or when they never will
	ended   chan struct{}
	err     error // why it ended; read after ended is closed
}

// start starts a controller.
func start(etcd *simetcd.Link, kcp *simkcp.Transport, logger logr.Logger) *process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{
		etcd: etcd, kcp: kcp, door: newListener(), cancel: cancel,
		elected: make(chan struct{}), ended: make(chan struct{}),
	}
	p.web = p.door.client()
	go func() {
		defer close(p.ended)
		p.err = p.run(log.IntoContext(ctx, logger), logger)
	}()
	return p
}

// run does the work of the controller's main function, with other connections.
func (p *process) run(ctx context.Context, logger logr.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ground, err := groundOf(ctx, p.kcp)
	if err != nil {
		return err
	}
	etcd := p.etcd.Client(ctx)
	ledger, err := controllers.OpenLedger(ctx, etcd, ground.Platform, allocator.Options{
		Prefix: ledgerPrefix, MaxTxnOps: 128, History: 90 * 24 * time.Hour, MaxHistory: 1000,
		Logger: slog.New(logr.ToSlogHandler(logger.WithName("ledger"))),
	})
	if err != nil {
		return err
	}
	defer func() { _ = ledger.Close() }()
	go func() {
		select {
		case <-ledger.Failed():
			cancel()
		case <-ctx.Done():
		}
	}()
	mgr, err := controllers.New(ctx, p.options(ground, ledger, allocator.Reader{Client: etcd, Prefix: ledgerPrefix}, logger))
	if err != nil {
		return err
	}
	go func() {
		defer close(p.elected)
		select {
		case <-mgr.Elected():
		case <-ctx.Done():
		}
	}()
	return mgr.Start(ctx)
}

// groundOf reads where the controllers work.
func groundOf(ctx context.Context, kcp *simkcp.Transport) (ground controllers.Ground, err error) {
	ground.Config = &rest.Config{Host: "http://kcp/clusters/" + simkcp.PlatformPath, Transport: kcp, QPS: -1, Burst: -1}
	ground.Export = ipamv1alpha1.GroupName
	if ground.Scheme, err = controllers.Scheme(); err != nil {
		return ground, err
	}
	ground.Platform, err = controllers.Platform(ctx, ground.Config, ground.Scheme)
	return ground, err
}

func (p *process) options(ground controllers.Ground, ledger *controllers.Ledger, books allocator.Reader, logger logr.Logger) controllers.Options {
	checks := verify.Defaults()
	checks.Ledger = books
	endpoint, err := door.ParseURL("https://" + host)
	if err != nil {
		panic(err)
	}
	return controllers.Options{
		Ground: ground, Ledger: ledger, DerivedPoolIdle: idle, Logger: logger,
		Claims: claim.Options{Workers: 4, Unmet: ipamv1alpha1.UnmetWait, MaxPools: 1000, MaxWaits: 10_000},
		Sweep:  sweep.Defaults(), Verify: checks, History: books, Consumer: consumer.Defaults(),
		Door:   door.Options{Listener: p.door, Endpoint: endpoint, Namespace: "ipam-system", Account: "ipam-controller", Peer: host},
		Probes: noProbes{},
		Manager: manager.Options{
			Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", GracefulShutdownTimeout: new(20 * time.Second),
			BaseContext: func() context.Context { return log.IntoContext(context.Background(), logger) },
			Controller:  config.Controller{SkipNameValidation: new(true)},
		},
	}
}

// noProbes receives probes that nobody asks.
type noProbes struct{}

func (noProbes) AddHealthzCheck(string, healthz.Checker) error { return nil }
func (noProbes) AddReadyzCheck(string, healthz.Checker) error  { return nil }

// kill cuts all connections at once. Nothing that the process does from now on reaches anything.
func (p *process) kill() {
	p.etcd.Cut()
	p.kcp.Cut()
	_ = p.door.Close()
	p.web.CloseIdleConnections()
	// A manager that is cancelled while it starts spins until its parts are ready, and simulated time stands still.
	go func() {
		select {
		case <-p.elected:
			time.Sleep(time.Second)
		case <-p.ended:
		}
		p.cancel()
	}()
}
