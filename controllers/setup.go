package controllers

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/kcp-ipam/ipam/controllers/adopt"
	"github.com/kcp-ipam/ipam/controllers/capi"
	"github.com/kcp-ipam/ipam/controllers/claim"
	"github.com/kcp-ipam/ipam/controllers/class"
	"github.com/kcp-ipam/ipam/controllers/consumer"
	"github.com/kcp-ipam/ipam/controllers/derived"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/history"
	"github.com/kcp-ipam/ipam/controllers/internal/caches"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/feed"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/memory"
	"github.com/kcp-ipam/ipam/controllers/internal/packed"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/controllers/pool"
	"github.com/kcp-ipam/ipam/controllers/release"
	"github.com/kcp-ipam/ipam/controllers/slice"
	"github.com/kcp-ipam/ipam/controllers/sweep"
	"github.com/kcp-ipam/ipam/controllers/verify"
	"github.com/kcp-ipam/ipam/internal/build"
	"github.com/kcp-ipam/ipam/internal/lookup"
)

// Scheme knows every kind that the controllers read or write.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, ipamv1alpha1.AddToScheme, v1controller1.AddToScheme, apisv1alpha1.AddToScheme, apisv1alpha2.AddToScheme,
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
	// Ledger is that of the ground's platform.
	Ledger *Ledger
	// Claims sets how claims are served; its MaxPools, MaxWaits, Unmet, Workers and Tracer.
	Claims claim.Options
	// DerivedPoolIdle is how long a pool that was made for a scope is used by nobody until it is retired. 0: it stays.
	DerivedPoolIdle time.Duration
	// Sweep sets how orphans are looked for; the zero value is safe.
	Sweep sweep.Options
	// Verify sets how ledger and objects are compared; its Ledger is required.
	Verify verify.Options
	// VerifySocket is where this controller can be asked to, and for the history; empty for
	// nowhere.
	VerifySocket string
	// History is the ledger that is asked for its history.
	History allocator.Reader
	// Consumer sets how the consumers of claims are looked after; the zero value is safe.
	Consumer consumer.Options
	// Door says where CREATE is answered; its Listener, Endpoint, Files, Namespace and
	// Account. Without a listener, claims are answered by the reconcile alone.
	Door door.Options
	// ClusterAPI serves the IPAddressClaims of Cluster API in the platform's cluster, without kcp.
	ClusterAPI bool
	// ClusterAPIScope says which of them. The zero value is all.
	ClusterAPIScope capi.Scope
	// Logger for what the controllers decide.
	Logger logr.Logger
	// Probes receive the health and readiness checks.
	Probes Probes
	// Manager options: leader election, and how long a shutdown may take.
	Manager manager.Options

	sees func() error // whether the caches are to be believed
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
	reading := opts.reading()
	reading.Endpoint, reading.Identity = opts.Ledger.directory.Endpoint, opts.Ledger.Recovery().Origin
	reader, err := live.NewReader(reading)
	if err != nil {
		return nil, err
	}
	if err := index(ctx, mgr); err != nil {
		return nil, err
	}
	endpoints := newEndpointsCheck(reader, clock.RealClock{})
	opts.sees = endpoints.sees
	contested := &paths{directory: opts.Ledger.directory, oracle: reader, clock: clock.RealClock{}}
	if err := errors.Join(
		addControllers(mgr, tenants, reader, opts), addClusterAPI(mgr, opts),
		mgr.GetLocalManager().Add(contested),
	); err != nil {
		return nil, err
	}
	return mgr, errors.Join(addChecks(mgr, endpoints, opts), opts.Probes.AddReadyzCheck("workspaces", tenants.Ready))
}

// newManager makes a manager without controllers, and the provider of its workspaces.
func newManager(opts Options) (mcmanager.Manager, provider, error) {
	tenants, err := newProvider(opts)
	if err != nil {
		return nil, nil, fmt.Errorf("provider: %w", err)
	}
	opts.Manager.Scheme, opts.Manager.Logger = opts.Scheme, opts.Logger
	opts.Manager.NewCache = caches.New
	opts.Manager.Cache.DefaultTransform = (&packed.Packer{}).Transform
	// Hidden is that the provider can be run: the manager would do so on the leader alone.
	hidden := struct{ multicluster.Provider }{tenants}
	waiting := newStandby(tenants.Reengage)
	mgr, err := mcmanager.New(opts.Config, hidden, opts.Manager, mcmanager.WithCoordinator(waiting))
	if err != nil {
		return nil, nil, fmt.Errorf("manager: %w", err)
	}
	if err := mgr.GetLocalManager().Add(&follower{provider: tenants, mgr: mgr}); err != nil {
		return nil, nil, fmt.Errorf("provider: %w", err)
	}
	return mgr, tenants, nil
}

// index adds the field indexes of the catalog to platform and tenants, and with them fills the
// platform's caches.
func index(ctx context.Context, mgr mcmanager.Manager) error {
	for _, indexer := range []client.FieldIndexer{mgr.GetFieldIndexer(), mgr.GetLocalManager().GetFieldIndexer()} {
		if err := indexer.IndexField(ctx, &ipamv1alpha1.IPPool{}, catalog.ByClass, catalog.IndexPoolByClass); err != nil {
			return fmt.Errorf("index pools by class: %w", err)
		}
		if err := indexer.IndexField(ctx, &ipamv1alpha1.IPClaim{}, consumer.ByConsumer, consumer.IndexClaimByConsumer); err != nil {
			return fmt.Errorf("index claims by consumer: %w", err)
		}
	}
	for name, extract := range map[string]client.IndexerFunc{catalog.ByDefault: catalog.IndexClassByDefault, catalog.ByParent: catalog.IndexClassByParent} {
		if err := mgr.GetLocalManager().GetFieldIndexer().IndexField(ctx, &ipamv1alpha1.IPClass{}, name, extract); err != nil {
			return fmt.Errorf("index classes by %s: %w", name, err)
		}
	}
	// A replica that does not lead has no watch that fills this one, and answers CREATEs from it as soon as it leads.
	_, err := mgr.GetLocalManager().GetCache().GetInformer(ctx, &ipamv1alpha1.IPAllocation{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch the platform's records: %w", err)
	}
	return nil
}

func addControllers(mgr mcmanager.Manager, tenants provider, reader *live.Reader, opts Options) error {
	alloc, known, news := opts.Ledger.Allocator, opts.Ledger.directory, opts.Ledger.inbox
	early := bound{manager: mgr, tenants: tenants}
	classes := &catalog.Catalog{Clusters: early, Directory: known, Rooms: alloc.Pools(), Listed: tenants.Listed}
	opts.Ledger.cooldowns.Serve(classes, alloc.Pools())
	hints, doubts := release.NewHints(clock.RealClock{}), claim.NewDoubts(news.Claims, known)
	adopter := adopt.New(adopt.Options{
		Ledger: alloc, Record: reader, Directory: known, Clusters: early, Suspect: hints.Suspect, Doubt: doubts.Add,
	})
	releases, pooled, err := addReleases(mgr, classes, reader, hints, adopter, opts)
	if err != nil {
		return err
	}
	slices, err := newSlices(mgr, reader, hints, opts)
	if err != nil {
		return err
	}
	workspaces := &feed.Feed{Reengage: tenants.Reengage}
	opts.Claims.Ledger, opts.Claims.Releases, opts.Claims.Catalog, opts.Claims.Directory = views.Of(alloc), releases, classes, known
	opts.Claims.Compare, opts.Claims.Complete, opts.Claims.Doubts, opts.Claims.Sees = adopter.Compare, adopter.Complete, doubts, opts.sees
	opts.Claims.Ranges, opts.Claims.Feed, opts.Claims.Queue, opts.Claims.Listed = pooled, workspaces, news.Claims, news.Listed
	claims, err := claim.New(mgr, opts.Claims)
	if err != nil {
		return fmt.Errorf("claim controller: %w", err)
	}
	workspaces.Changed = func(name multicluster.ClusterName) {
		slices.Changed(known.Ledger(name)) // what a workspace has of the platform's slices depends on whether its cache can be read
		claims.Changed(name)
	}
	pools, err := pool.New(mgr, pool.Options{
		Ledger: views.Of(alloc), Catalog: classes, Directory: known, Feed: workspaces, Queue: news.Pools,
		RetireBelow: pooled.RetireBelow, Adoption: adopter, Oracle: reader, Seen: both(slices.Seen, pooled.Seen), Deleted: hints.PoolDeleted, MaxPools: opts.Claims.MaxPools,
	})
	if err != nil {
		return fmt.Errorf("pool controller: %w", err)
	}
	sweeper := newSweeper(mgr, hints, doubts, opts)
	known.Observe(&watcher{
		adopter: adopter, releases: releases, claims: claims, pools: pools, derived: pooled, slices: slices, sweeper: sweeper,
		logger: opts.Logger.WithName("directory"),
	})
	return errors.Join(
		addClasses(mgr, classes, opts), addConsumer(mgr, workspaces, reader, opts), addVerifier(mgr, reader, hints, opts), addDoor(mgr, claims, pools, releases, pooled.Closer, opts),
		mgr.GetLocalManager().Add(&release.Expiry{Leases: alloc.Retained(), Suspect: hints.Suspect}),
		mgr.GetLocalManager().Add(adopter), mgr.GetLocalManager().Add(sweeper),
		mgr.GetLocalManager().Add(manager.RunnableFunc(func(ctx context.Context) error { return alloc.Lead(ctx, opts.Door.Peer) })), // on the leader alone
		mgr.GetLocalManager().Add(&memory.Watch{}), mgr.Add(workspaces),
		mgr.GetLocalManager().Add(&reservations{count: alloc.Reservations().Count, names: known, clock: clock.RealClock{}}),
	)
}

func newSlices(mgr mcmanager.Manager, reader *live.Reader, hints *release.Hints, opts Options) (*slice.Controller, error) {
	alloc, known := opts.Ledger.Allocator, opts.Ledger.directory
	slices, err := slice.New(mgr.GetLocalManager(), slice.Options{
		Catalog:   &catalog.Catalog{Clusters: mgr, Directory: known, Rooms: alloc.Pools()}, // it writes to the workspaces
		Directory: known, Ledger: views.Of(alloc), Oracle: reader, Departed: hints.HasDeparted,
	})
	if err != nil {
		return nil, fmt.Errorf("slice controller: %w", err)
	}
	return slices, nil
}

func newSweeper(mgr mcmanager.Manager, hints *release.Hints, doubts *claim.Doubts, opts Options) *sweep.Sweeper {
	opts.Sweep.Ledger, opts.Sweep.Releases = views.Of(opts.Ledger.Allocator), hints
	opts.Sweep.World = sweep.Caches{Clusters: mgr, Directory: opts.Ledger.directory}
	opts.Sweep.Wake, opts.Sweep.Doubt = opts.Ledger.inbox.Wake, doubts.Add
	return sweep.New(opts.Sweep)
}

func addClasses(mgr mcmanager.Manager, classes *catalog.Catalog, opts Options) error {
	if err := class.Setup(mgr.GetLocalManager(), class.Options{
		Catalog: classes, Directory: opts.Ledger.directory, Version: build.Version(), Ledger: opts.Ledger.Derived(),
	}); err != nil {
		return fmt.Errorf("class controller: %w", err)
	}
	return nil
}

func addConsumer(mgr mcmanager.Manager, workspaces *feed.Feed, reader *live.Reader, opts Options) error {
	opts.Consumer.Clusters, opts.Consumer.Directory, opts.Consumer.World = mgr, opts.Ledger.directory, &live.Objects{Reader: reader}
	if err := consumer.New(mgr, workspaces, opts.Consumer); err != nil {
		return fmt.Errorf("consumer controller: %w", err)
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

func addDoor(mgr mcmanager.Manager, claims *claim.Reconciler, pools *pool.Reconciler, releases *release.Controller, closer *derived.Closer, opts Options) error {
	opts.Door.Answerer, opts.Door.Drainer, opts.Door.Releaser, opts.Door.Closer = claims, pools, releases, closer
	opts.Door.Platform, opts.Door.Standalone = opts.Platform.Cluster, opts.Export == ""
	opts.Door.Also = map[string]http.Handler{
		"GET " + lookup.Path: history.Served(mgr.GetLocalManager().GetClient(), opts.History, opts.Ledger.directory),
	}
	if opts.Manager.LeaderElection {
		opts.Door.Elected, opts.Door.Leader = mgr.GetLocalManager().Elected(), opts.Ledger.Leader
	}
	return door.Setup(mgr.GetLocalManager(), opts.Door)
}

// addChecks makes the controller healthy while it lives, and ready while the ledger
// is and the export has its endpoint slice: there may be no endpoints, but that must be known.
func addChecks(mgr mcmanager.Manager, endpoints *endpointsCheck, opts Options) error {
	return errors.Join(
		mgr.GetLocalManager().Add(endpoints),
		opts.Probes.AddHealthzCheck("ping", healthz.Ping),
		opts.Probes.AddReadyzCheck("ledger", func(*http.Request) error { return opts.Ledger.Healthy() }),
		opts.Probes.AddReadyzCheck("endpoints", endpoints.check),
	)
}
