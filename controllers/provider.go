package controllers

import (
	"context"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	nop "sigs.k8s.io/multicluster-runtime/providers/nop"

	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/tenants"
)

// provider provides the workspaces that bind the export. A follower runs it.
type provider interface {
	multicluster.Provider
	multicluster.ProviderRunnable
	Reengage(name multicluster.ClusterName)
	Ready(*http.Request) error
	Bound(ctx context.Context, name multicluster.ClusterName) (cluster.Cluster, error)
}

// bound gives access to the platform, and to the workspaces that bind the export, also before the manager has
// engaged them: CREATE is answered while a million claims are still being listed. It shows their pools from
// the cache.
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

// nobody is the provider of a cluster without kcp, which has no tenants.
type nobody struct{ *nop.Provider }

func (nobody) Reengage(multicluster.ClusterName) {}

func (nobody) Ready(*http.Request) error { return nil }

func (n nobody) Bound(ctx context.Context, name multicluster.ClusterName) (cluster.Cluster, error) {
	return n.Get(ctx, name)
}
