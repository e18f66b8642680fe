package controllers

import (
	"time"

	"github.com/kcp-dev/multicluster-provider/pkg/handlers"
	"github.com/kcp-dev/multicluster-provider/pkg/provider"
	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	nop "sigs.k8s.io/multicluster-runtime/providers/nop"

	"github.com/kcp-ipam/ipam/controllers/feed"
)

// listing is how long an endpoint may take to list all that its workspaces hold. The
// provider gives up a workspace for good that waits longer.
const listing = time.Hour

// followed is a provider that a follower runs.
type followed interface {
	multicluster.Provider
	multicluster.ProviderRunnable
}

// tenants provides the workspaces that bind the export.
func tenants(opts Options, workspaces *feed.Feed) (followed, error) {
	if opts.Export == "" {
		return nop.New(), nil
	}
	tenants, err := provider.NewProvider(discovered(opts.Config), opts.Export, provider.Options{
		Scheme:        opts.Scheme,
		ObjectToWatch: &apisv1alpha1.APIBinding{},
		AddFilter:     served, UpdateFilter: served,
		Log:        new(opts.Logger.WithName("provider").V(1)), // it logs whole objects
		NewCluster: workspaces.NewCluster,
		Handlers:   handlers.Handlers{opts.Directory},
	})
	if err != nil {
		return nil, err
	}
	tenants.Clusters.WaitCacheTimeout = listing
	return tenants, nil
}

// served reports whether a binding's workspace is to be served: it is ready, or
// it goes. One that goes has pools to be let go, or it would wait for ever.
func served(binding client.Object) (bool, error) {
	if !binding.GetDeletionTimestamp().IsZero() {
		return true, nil
	}
	return provider.ConditionReadyFunc("Ready")(binding)
}
