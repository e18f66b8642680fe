package controllers

import (
	"context"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	nop "sigs.k8s.io/multicluster-runtime/providers/nop"

	"github.com/kcp-ipam/ipam/controllers/internal/tenants"
)

// provider provides the workspaces that bind the export. A follower runs it.
type provider interface {
	multicluster.Provider
	multicluster.ProviderRunnable
	Reengage(name multicluster.ClusterName)
	Ready(*http.Request) error
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

// onEngage is called when a workspace is engaged, and when it is no more.
type onEngage func(name multicluster.ClusterName)

// Engage implements multicluster.Aware.
func (f onEngage) Engage(ctx context.Context, name multicluster.ClusterName, _ cluster.Cluster) error {
	f(name)
	context.AfterFunc(ctx, func() { f(name) })
	return nil
}

// Start implements manager.Runnable. It works when it is called upon.
func (onEngage) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
