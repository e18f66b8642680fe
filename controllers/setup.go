package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/allocator"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/apis/ipam/v1controller1"
	"github.com/kcp-ipam/ipam/controllers/capi"
	"github.com/kcp-ipam/ipam/controllers/claim"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/history"
	"github.com/kcp-ipam/ipam/controllers/internal/caches"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/memory"
	"github.com/kcp-ipam/ipam/controllers/internal/packed"
	"github.com/kcp-ipam/ipam/controllers/recover"
	"github.com/kcp-ipam/ipam/controllers/sweep"
	"github.com/kcp-ipam/ipam/internal/lookup"
)

// Scheme returns a scheme of every kind that the controllers read or write.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, ipamv1alpha1.AddToScheme, v1controller1.AddToScheme, apisv1alpha1.AddToScheme,
		apisv1alpha2.AddToScheme,
		clusterv1.AddToScheme, capiv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// Options configure the controllers. All fields but ClusterAPI, Claims and Manager are required.
type Options struct {
	Ground
	// Ledger is the ledger of the platform.
	Ledger *Ledger
	// Claims sets how claims are served. Only its MaxPools, MaxWaits, Unmet, Workers and Tracer are used.
	Claims claim.Options
	// DerivedPoolIdle is how long a derived pool stays while nobody uses it. 0: it stays.
	DerivedPoolIdle time.Duration
	// Sweep sets how orphans are looked for; the zero value is safe.
	Sweep sweep.Options
	// Verify sets how ledger and objects are compared. Its Ledger is required.
	Verify recover.VerifierOptions
	// VerifySocket is the socket where commands can ask this controller to verify, and for the history. Empty: there is
	// none.
	VerifySocket string
	// Snapshot writes a snapshot of the ledger's etcd. Commands get it from VerifySocket.
	Snapshot func(ctx context.Context, to io.Writer) error
	// History reads the history of the ledger.
	History allocator.Reader
	// Door says where CREATE is answered. Only its Listener, Endpoint, Files, Namespace and Account are used. Without a
	// Listener, claims are answered by the reconcile alone.
	Door door.Options
	// ClusterAPI serves the IPAddressClaims of Cluster API in the platform's cluster, without kcp.
	ClusterAPI bool
	// ClusterAPIScope says which IPAddressClaims are served. The zero value is all.
	ClusterAPIScope capi.Scope
	// Logger for what the controllers decide.
	Logger logr.Logger
	// Probes receive the health and readiness checks.
	Probes Probes
	// Manager options: leader election, and how long a shutdown may take.
	Manager manager.Options

	sees func() error // returns an error if the caches are not to be believed
}

// Probes receive the health and readiness checks.
type Probes interface {
	AddHealthzCheck(name string, check healthz.Checker) error
	AddReadyzCheck(name string, check healthz.Checker) error
}

// New makes a manager that runs all controllers.
func New(ctx context.Context, opts Options) (mcmanager.Manager, error) {
	mgr, tenants, err := newManager(opts)
	if err != nil {
		return nil, err
	}
	reader, err := opts.newReader(func(ctx context.Context, seen string) (string, error) {
		known, err := opts.Ledger.reader().Origin(ctx)
		return cmp.Or(known, seen), err
	})
	if err != nil {
		return nil, err
	}
	if err := index(ctx, mgr); err != nil {
		return nil, err
	}
	endpoints := newEndpointsCheck(reader, clock.RealClock{})
	opts.sees = endpoints.sees
	contested := &paths{directory: opts.Ledger.directory, oracle: reader, clock: clock.RealClock{}}
	leads := &leader{Options: opts, mgr: mgr, tenants: tenants.provider, workspaces: tenants.standby}
	if leads.door, err = newDoor(mgr, opts); err != nil {
		return nil, err
	}
	if leads.socket, err = newSocket(mgr, reader, opts); err != nil {
		return nil, err
	}
	if err := errors.Join(
		addClusterAPI(mgr, opts), mgr.GetLocalManager().Add(contested), mgr.GetLocalManager().Add(&memory.Watch{}),
		mgr.GetLocalManager().Add(leads),
	); err != nil {
		return nil, err
	}
	return mgr, errors.Join(addChecks(mgr, endpoints, opts), opts.Probes.AddReadyzCheck("workspaces", tenants.Ready))
}

// newReader makes a live reader. The reader calls identity to find out the export whose tenants the ledger has.
func (o Options) newReader(identity func(ctx context.Context, seen string) (string, error)) (*live.Reader, error) {
	reading := o.reading()
	reading.Endpoint, reading.Identity = o.Ledger.directory.Endpoint, identity
	return live.NewReader(reading)
}

// workspaces are the workspaces of the tenants: their provider, and the standby that keeps them until this replica
// leads.
type workspaces struct {
	provider
	*standby
}

// newManager makes a manager without controllers, and returns the workspaces of its tenants.
func newManager(opts Options) (mgr mcmanager.Manager, of workspaces, err error) {
	tenants, err := newProvider(opts)
	if err != nil {
		return nil, of, fmt.Errorf("provider: %w", err)
	}
	opts.Manager.Scheme, opts.Manager.Logger = opts.Scheme, opts.Logger
	opts.Manager.NewCache = caches.New
	opts.Manager.Cache.DefaultTransform = (&packed.Packer{}).Transform
	// The manager would run the provider on the leader alone. So it does not see that the provider is a runnable.
	hidden := struct{ multicluster.Provider }{tenants}
	waiting := newStandby(tenants.Reengage)
	mgr, err = mcmanager.New(opts.Config, hidden, opts.Manager, mcmanager.WithCoordinator(waiting))
	if err != nil {
		return nil, of, fmt.Errorf("manager: %w", err)
	}
	following := &follower{provider: tenants, mgr: mgr}
	if !opts.Manager.LeaderElection { // lists of claims would slow the ledger down, and CREATE waits for the ledger
		following.after = opts.Ledger.opened
	}
	if err := mgr.GetLocalManager().Add(following); err != nil {
		return nil, of, fmt.Errorf("provider: %w", err)
	}
	return mgr, workspaces{tenants, waiting}, nil
}

// index adds the field indexes of the catalog to the platform and the tenants. This also fills the platform's caches.
func index(ctx context.Context, mgr mcmanager.Manager) error {
	for _, indexer := range []client.FieldIndexer{mgr.GetFieldIndexer(), mgr.GetLocalManager().GetFieldIndexer()} {
		if err := indexer.IndexField(ctx, &ipamv1alpha1.IPPool{}, catalog.ByClass, catalog.IndexPoolByClass); err != nil {
			return fmt.Errorf("index pools by class: %w", err)
		}
	}
	for name, extract := range map[string]client.IndexerFunc{
		catalog.ByDefault: catalog.IndexClassByDefault, catalog.ByParent: catalog.IndexClassByParent,
	} {
		indexer := mgr.GetLocalManager().GetFieldIndexer()
		if err := indexer.IndexField(ctx, &ipamv1alpha1.IPClass{}, name, extract); err != nil {
			return fmt.Errorf("index classes by %s: %w", name, err)
		}
	}
	// On a standby no watch fills this cache, and CREATEs are answered from it as soon as the standby leads.
	_, err := mgr.GetLocalManager().GetCache().GetInformer(ctx, &ipamv1alpha1.IPAllocation{},
		cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch the platform's records: %w", err)
	}
	return nil
}

func addClusterAPI(mgr mcmanager.Manager, opts Options) error {
	if !opts.ClusterAPI {
		return nil
	}
	if err := capi.Setup(mgr.GetLocalManager(), capi.Options{Scope: opts.ClusterAPIScope}); err != nil {
		return fmt.Errorf("controller for Cluster API: %w", err)
	}
	return nil
}

// newDoor adds the door to the manager. Each replica runs it.
func newDoor(mgr mcmanager.Manager, opts Options) (door.Door, error) {
	opts.Door.Platform, opts.Door.Standalone = opts.Platform.Cluster, opts.Export == ""
	opts.Door.Leader = opts.Ledger.reader().Leader
	opts.Door.Also = map[string]http.Handler{
		"GET " + lookup.Path: history.Served(mgr.GetLocalManager().GetClient(), opts.History, opts.Ledger.directory),
	}
	return door.Setup(mgr.GetLocalManager(), opts.Door)
}

// addChecks makes the controller healthy while it lives, and ready while the ledger and the endpoints are. The export
// must have a valid endpoint slice, which may list no endpoints.
func addChecks(mgr mcmanager.Manager, endpoints *endpointsCheck, opts Options) error {
	return errors.Join(
		mgr.GetLocalManager().Add(endpoints),
		opts.Probes.AddHealthzCheck("ping", healthz.Ping),
		opts.Probes.AddReadyzCheck("ledger", func(r *http.Request) error {
			return (*opts.Ledger.healthy.Load())(r.Context())
		}),
		opts.Probes.AddReadyzCheck("endpoints", endpoints.check),
	)
}
