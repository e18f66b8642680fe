package sim

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
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
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/recover"
	"github.com/kcp-ipam/ipam/controllers/sweep"
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
	replica int    // its place
	elects  bool   // there are several replicas, and one leads
	name    string // the address at which the other replicas reach its door
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	etcd    *simetcd.Link
	kcp     *simkcp.Transport
	door    *listener
	web     *http.Client
	cancel  context.CancelFunc
	dead    chan struct{} // closed when its connections are cut
	started chan struct{} // closed when its caches are filled
	elected chan struct{} // closed when all controllers run
	ended   chan struct{}
	err     error // why it ended; read after ended is closed

	once          sync.Once // closes dead
	mu            sync.Mutex
	still         time.Time // until when the process stands still
	begun, killed bool
}

// start starts the controller. Its connections and its address are given.
func (p *process) start(logger logr.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	p.door, p.cancel = newListener(), cancel
	p.dead, p.started = make(chan struct{}), make(chan struct{})
	p.elected, p.ended = make(chan struct{}), make(chan struct{})
	p.web = p.door.client()
	go func() {
		defer close(p.ended)
		defer p.cut() // as the end of a process does
		p.err = p.run(log.IntoContext(ctx, logger), logger)
	}()
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
	ledger := controllers.NewLedger(etcd, ground.Platform, allocator.Options{
		Prefix: ledgerPrefix, MaxTxnOps: 128, History: 90 * 24 * time.Hour, MaxHistory: 1000,
		Logger: slog.New(logr.ToSlogHandler(logger.WithName("ledger"))),
	})
	defer func() { _ = ledger.Close() }()
	options := p.options(ground, ledger, allocator.Reader{Client: etcd, Prefix: ledgerPrefix}, logger)
	if err := p.elect(&options.Manager, ground.Config); err != nil {
		return err
	}
	if !p.begin() {
		return errors.New("killed")
	}
	mgr, err := controllers.New(ctx, options)
	if err != nil {
		return err
	}
	if err := mgr.GetLocalManager().Add(onEachReplica(func() { close(p.started) })); err != nil {
		return err
	}
	go func() {
		select {
		case <-mgr.Elected():
			close(p.elected)
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
	checks := recover.VerifierDefaults()
	checks.Ledger = books
	endpoint, err := door.ParseURL("https://" + host)
	if err != nil {
		panic(err)
	}
	return controllers.Options{
		Ground: ground, Ledger: ledger, DerivedPoolIdle: idle, Logger: logger,
		Claims: claim.Options{Workers: 4, Unmet: ipamv1alpha1.UnmetWait, MaxPools: 1000, MaxWaits: 10_000},
		Sweep:  sweep.Defaults(), Verify: checks, History: books,
		Door:   door.Options{Listener: p.door, Endpoint: endpoint, Namespace: "ipam-system", Account: "ipam-controller", Peer: p.name, Dial: p.dial},
		Probes: noProbes{},
		Manager: manager.Options{
			Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", GracefulShutdownTimeout: new(20 * time.Second),
			BaseContext: func() context.Context { return log.IntoContext(context.Background(), logger) },
			Controller:  config.Controller{SkipNameValidation: new(true)},
		},
	}
}

// noProbes accepts health checks, and never runs them.
type noProbes struct{}

func (noProbes) AddHealthzCheck(string, healthz.Checker) error { return nil }
func (noProbes) AddReadyzCheck(string, healthz.Checker) error  { return nil }

// leads reports whether the process was elected. It may have lost its lease since, and not know it.
func (p *process) leads() bool {
	select {
	case <-p.elected:
		return true
	default:
		return false
	}
}

// cut ends all connections at once.
func (p *process) cut() {
	p.once.Do(func() { close(p.dead) })
	p.etcd.Cut()
	p.kcp.Cut()
	p.door.sever()
	p.web.CloseIdleConnections()
}

// kill ends the process, and first cuts its connections. If the manager is starting, kill waits until the caches are
// filled: without connections they would never be, and a manager that is cancelled meanwhile spins.
func (p *process) kill() {
	if p.starts() {
		p.await(p.started)
	}
	p.cut()
	go func() {
		p.await(p.elected) // a controller that never runs does not end its queue
		time.Sleep(time.Second)
		p.cancel()
	}()
}

// stop ends the process in good order, and waits for its end. A standby is killed, because it has nothing to finish.
func (p *process) stop() {
	if p.leads() {
		p.cancel()
	} else {
		p.kill()
	}
	<-p.ended
}

// begin lets the manager start, unless the process was killed.
func (p *process) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = !p.killed
	return p.begun
}

// starts marks the process as killed, and reports whether its manager had begun to start. If not, it never will.
func (p *process) starts() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	return p.begun
}

// await waits for an event in the life of the process, or for its end.
func (p *process) await(event <-chan struct{}) {
	select {
	case <-event:
	case <-p.ended:
	}
}

// onEachReplica is a Runnable that runs whether or not its replica leads.
type onEachReplica func()

// Start implements manager.Runnable.
func (f onEachReplica) Start(context.Context) error {
	f()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (onEachReplica) NeedLeaderElection() bool { return false }
