package main

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers"
	"github.com/kcp-ipam/ipam/workspaces"
)

// findGround reaches the platform. If the options ask for a bootstrap, it makes the platform ready first. The client
// does not throttle requests: the server's priority and fairness does, and a limit here would be one for all tenants
// together.
func findGround(ctx context.Context, opts *options) (g controllers.Ground, err error) {
	if g.Scheme, err = controllers.Scheme(); err != nil {
		return g, err
	}
	reach, identify := workspaceConfig, controllers.Platform
	if opts.standalone {
		reach, identify = clusterConfig, controllers.Standalone
	} else {
		g.Export = workspaces.ExportName
	}
	given, err := opts.restConfig()
	if err != nil {
		return g, fmt.Errorf("--kubeconfig: %w", err)
	}
	if g.Config, err = reach(ctx, given, opts); err != nil {
		return g, err
	}
	g.Config.QPS, g.Config.Burst = -1, -1
	if g.Platform, err = identify(ctx, g.Config, g.Scheme); err != nil {
		return g, err
	}
	if opts.tenants == tenantNamespaces {
		g.Platform.Cluster = ledger.ByNamespace(g.Platform.Cluster)
	}
	g.Config.Timeout = 0 // a timeout would end watches
	return g, nil
}

// workspaceConfig returns the configuration for the platform workspace of a kcp.
func workspaceConfig(ctx context.Context, cfg *rest.Config, opts *options) (*rest.Config, error) {
	if !opts.bootstrap && !opts.request {
		return workspaces.At(cfg, opts.workspace), controllers.ObserveToken("platform", cfg)
	}
	if opts.bootstrap {
		err := workspaces.Bootstrap(ctx, cfg, workspaces.Options{Workspace: opts.workspace, Progress: steps(ctx)})
		if err != nil {
			return nil, err
		}
	}
	return renewedConfig(ctx, func() (*rest.Config, error) {
		cfg, err := opts.restConfig()
		if err != nil {
			return nil, err
		}
		return workspaces.At(cfg, opts.workspace), nil
	})
}

// clusterConfig returns the configuration for a cluster without kcp.
func clusterConfig(ctx context.Context, cfg *rest.Config, opts *options) (*rest.Config, error) {
	if !opts.bootstrap && !opts.request {
		return cfg, controllers.ObserveToken("platform", cfg)
	}
	if err := bootstrapCluster(ctx, cfg, opts); err != nil {
		return nil, err
	}
	return renewedConfig(ctx, opts.restConfig)
}

// bootstrapCluster makes a cluster without kcp ready, if the options ask for a bootstrap.
func bootstrapCluster(ctx context.Context, cfg *rest.Config, opts *options) error {
	if !opts.bootstrap {
		return nil
	}
	if err := workspaces.BootstrapStandalone(ctx, cfg, steps(ctx)); err != nil || !opts.capi {
		return err
	}
	return workspaces.BootstrapClusterAPI(ctx, cfg, steps(ctx))
}

// renewedConfig returns the access of the controller's service account. Whenever it renews the token, it calls reach
// for the access of the kubeconfig, because kcp gives its admin another token when it restarts.
func renewedConfig(ctx context.Context, reach func() (*rest.Config, error)) (*rest.Config, error) {
	steps(ctx)("requesting a token of the controller's service account, renewed while it runs")
	return workspaces.RenewedConfig(ctx, workspaces.Renewal{Reach: reach, Logger: log.FromContext(ctx)})
}

// steps returns a function that logs a step of a bootstrap.
func steps(ctx context.Context) func(string) {
	return func(step string) { log.FromContext(ctx).Info("bootstrap", "step", step) }
}

// restConfig returns the access that --kubeconfig names. --timeout limits each of its requests.
func (o *options) restConfig() (*rest.Config, error) {
	cfg, err := restConfig(o.kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.Timeout = o.timeout
	return cfg, nil
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return ctrl.GetConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}
