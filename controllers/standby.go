package controllers

import (
	"context"
	"net/http"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/manager/coordinator/basic"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	nop "sigs.k8s.io/multicluster-runtime/providers/nop"

	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/tenants"
)

// standby keeps the workspaces from the controllers until this replica leads. Their caches are filled meanwhile, so
// that a standby that takes over need not list everything. But no event handler runs: its hints would pile up, as
// nothing works on them. Safe for concurrent use.
type standby struct {
	*basic.Coordinator
	// reengage disengages a workspace, and engages it again.
	reengage func(multicluster.ClusterName)

	mu    sync.Mutex
	leads bool
	held  map[multicluster.ClusterName]engagement
}

// engagement is a workspace for the controllers, as long as its context lasts.
type engagement struct {
	context.Context
	cluster.Cluster
}

func newStandby(reengage func(multicluster.ClusterName)) *standby {
	return &standby{Coordinator: basic.New(), reengage: reengage, held: map[multicluster.ClusterName]engagement{}}
}

// Engage implements mcmanager.Coordinator.
func (s *standby) Engage(ctx context.Context, name multicluster.ClusterName, cl cluster.Cluster) error {
	if s.hold(name, engagement{ctx, cl}) {
		return nil
	}
	return s.Coordinator.Engage(ctx, name, cl)
}

// hold keeps a workspace for later. It returns false if this replica leads.
func (s *standby) hold(name multicluster.ClusterName, e engagement) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leads {
		return false
	}
	s.held[name] = e
	context.AfterFunc(e.Context, func() { s.drop(name, e) })
	return true
}

// drop forgets a workspace whose context has ended, unless the workspace was engaged again.
func (s *standby) drop(name multicluster.ClusterName, e engagement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[name] == e {
		delete(s.held, name)
	}
}

// lead gives the controllers the workspaces that were held, and from then on those that come. If the controllers fail
// to engage a workspace, it is engaged again, as if it had just come, and the others do not wait for it.
func (s *standby) lead(ctx context.Context) {
	s.mu.Lock()
	s.leads = true
	held := s.held
	s.held = map[multicluster.ClusterName]engagement{}
	s.mu.Unlock()
	for name, e := range held {
		if e.Err() != nil {
			continue
		}
		if err := s.Coordinator.Engage(e.Context, name, e.Cluster); err != nil && e.Err() == nil {
			log.FromContext(ctx).Error(err, "the workspace is engaged again", "cluster", name)
			s.reengage(name)
		}
	}
}

// follower runs the provider on every replica. A manager would run it on the leader alone.
type follower struct {
	provider multicluster.ProviderRunnable
	mgr      mcmanager.Manager
	after    <-chan struct{} // the follower waits until this is closed; nil: it starts at once
}

// NeedLeaderElection says that every replica follows.
func (f *follower) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (f *follower) Start(ctx context.Context) error {
	if f.after != nil {
		select {
		case <-f.after:
		case <-ctx.Done():
			return nil
		}
	}
	return f.provider.Start(ctx, f.mgr)
}

// provider provides the workspaces that bind the export. A follower runs it.
type provider interface {
	multicluster.Provider
	multicluster.ProviderRunnable
	Reengage(name multicluster.ClusterName)
	Ready(*http.Request) error
	Listed() bool
	Bound(ctx context.Context, name multicluster.ClusterName) (cluster.Cluster, error)
}

// bound gives access to the platform and to the workspaces that bind the export, even before the manager has engaged
// them. So CREATE is answered while a million claims are still being listed. bound shows the pools of these workspaces
// from the cache.
type bound struct {
	manager catalog.Clusters
	tenants provider
}

// GetCluster implements catalog.Clusters.
func (b bound) GetCluster(ctx context.Context, name multicluster.ClusterName) (cluster.Cluster, error) {
	if name == "" {
		return b.manager.GetCluster(ctx, name)
	}
	return b.tenants.Bound(ctx, name)
}

func newProvider(opts Options) (provider, error) {
	if opts.Export == "" {
		return nobody{nop.New()}, nil
	}
	return tenants.New(tenants.Options{
		Config: opts.Config, Slice: opts.Export, Scheme: opts.Scheme, Directory: opts.Ledger.directory,
		Logger: opts.Logger.WithName("tenants"),
	})
}

// nobody provides no tenants: a Kubernetes without kcp has none.
type nobody struct{ *nop.Provider }

func (nobody) Reengage(multicluster.ClusterName) {}

func (nobody) Ready(*http.Request) error { return nil }

func (nobody) Listed() bool { return true }

func (n nobody) Bound(ctx context.Context, name multicluster.ClusterName) (cluster.Cluster, error) {
	return n.Get(ctx, name)
}
