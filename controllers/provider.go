package controllers

import (
	"net/http"

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
