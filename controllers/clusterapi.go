package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/capi"
	"github.com/kcp-ipam/ipam/controllers/internal/caches"
)

const (
	// lookInterval is how often all IPClaims of a management cluster are reconciled, whether or not they have changed. So
	// a change is found even if its event was missed.
	lookInterval = 10 * time.Minute
	// syncPatience is how long a readiness check waits for a cache.
	syncPatience = time.Second
	// answerPatience is how long a server may take to answer a request at the start. If it takes longer, the process ends,
	// and says which server does not answer, before a liveness probe ends the process.
	answerPatience = 20 * time.Second
)

// ClusterAPIOptions configure the controller for Cluster API beside a workspace. All fields but
// Scope and Manager are required.
type ClusterAPIOptions struct {
	// Management reaches the management cluster, which has IPAddressClaims, IPAddresses and Clusters.
	Management *rest.Config
	// Workspace reaches the workspace, which binds the API.
	Workspace *rest.Config
	// Namespace is the namespace of all IPClaims in the workspace.
	Namespace string
	// Scope says which IPAddressClaims are served. Default: all.
	Scope capi.Scope
	// Scheme is the scheme that the function Scheme returns.
	Scheme *runtime.Scheme
	// Logger for what the controller decides.
	Logger logr.Logger
	// Probes receive the health and readiness checks.
	Probes Probes
	// Manager options: leader election, by a lease in the management cluster, and how long a shutdown
	// may take.
	Manager manager.Options
}

// NewClusterAPI makes a manager that runs the controller for Cluster API alone. The controller has no ledger: its
// IPClaims are served like all others in the workspace. Both servers have to answer now, and may be away later. If one
// does not answer, the error says which, and what it was asked for.
func NewClusterAPI(ctx context.Context, opts ClusterAPIOptions) (manager.Manager, error) {
	origin, err := identify(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("management cluster %s: %w", opts.Management.Host, err)
	}
	if err := visit(ctx, opts); err != nil {
		return nil, fmt.Errorf("workspace %s: %w", opts.Workspace.Host, err)
	}
	names := capi.Names{Origin: origin, Namespace: opts.Namespace}
	opts.Manager.Scheme, opts.Manager.Logger, opts.Manager.NewCache = opts.Scheme, opts.Logger, caches.New
	if opts.Scope.Namespace != "" {
		opts.Manager.Cache.DefaultNamespaces = map[string]cache.Config{opts.Scope.Namespace: {}}
	}
	mgr, err := manager.New(opts.Management, opts.Manager)
	if err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	workspace, err := cluster.New(opts.Workspace, func(o *cluster.Options) {
		o.Scheme, o.Logger, o.Cache, o.NewCache = opts.Scheme, opts.Logger.WithName("workspace"), claimsOf(names), caches.New
	})
	if err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	if err := capi.Setup(mgr, capi.Options{Workspace: workspace, Names: names, Scope: opts.Scope}); err != nil {
		return nil, fmt.Errorf("controller for Cluster API: %w", err)
	}
	opts.Logger.Info("management cluster found", "origin", origin)
	return mgr, errors.Join(
		mgr.Add(workspace),
		opts.Probes.AddHealthzCheck("ping", healthz.Ping),
		opts.Probes.AddReadyzCheck("management", synced(mgr.GetCache())),
		opts.Probes.AddReadyzCheck("workspace", synced(workspace.GetCache())),
	)
}

// identify asks the management cluster which one it is.
func identify(ctx context.Context, opts ClusterAPIOptions) (types.UID, error) {
	management, err := impatient(opts.Management, opts.Scheme)
	if err != nil {
		return "", err
	}
	return capi.Identify(ctx, management)
}

// visit asks the workspace whether it answers, serves the API, and lets this user read what the controller
// is going to watch.
func visit(ctx context.Context, opts ClusterAPIOptions) error {
	workspace, err := impatient(opts.Workspace, opts.Scheme)
	if err != nil {
		return err
	}
	here := client.InNamespace(opts.Namespace)
	if err := workspace.List(ctx, &ipamv1alpha1.IPClaimList{}, here, client.Limit(1)); err != nil {
		return fmt.Errorf("list IPClaims in namespace %s: %w", opts.Namespace, err)
	}
	if err := workspace.List(ctx, &ipamv1alpha1.IPPoolList{}, client.Limit(1)); err != nil {
		return fmt.Errorf("list IPPools: %w", err)
	}
	return nil
}

// impatient returns a client of a server. A request that takes longer than answerPatience fails.
func impatient(server *rest.Config, scheme *runtime.Scheme) (client.Client, error) {
	server = rest.CopyConfig(server)
	server.Timeout = answerPatience
	return client.New(server, client.Options{Scheme: scheme})
}

// claimsOf returns the options of the cache of a workspace: of the IPClaims there, it has those of one management
// cluster.
func claimsOf(names capi.Names) cache.Options {
	return cache.Options{
		SyncPeriod: new(lookInterval),
		ByObject: map[client.Object]cache.ByObject{&ipamv1alpha1.IPClaim{}: {
			Namespaces: map[string]cache.Config{names.Namespace: {}},
			Label:      labels.SelectorFromSet(labels.Set{capi.LabelOrigin: string(names.Origin)}),
		}},
	}
}

// synced returns a check that fails until a cache is filled.
func synced(c cache.Cache) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), syncPatience)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("its objects have not been listed yet")
		}
		return nil
	}
}
