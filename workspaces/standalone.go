package workspaces

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/config"
)

// BootstrapStandalone makes the cluster that cfg reaches, one without kcp, ready for the
// controller, or brings it up to date: definitions, policies, roles, and the controller's
// account. progress is told each step before it is taken.
func BootstrapStandalone(ctx context.Context, cfg *rest.Config, progress func(step string)) error {
	c, err := NewClient(cfg)
	if err != nil {
		return fmt.Errorf("bootstrap %s: %w", cfg.Host, err)
	}
	p := &platform{Client: c, Options: Options{Progress: progress}}
	err = p.take(ctx,
		step{"applying the admission policies", func(ctx context.Context) error {
			_, err := p.applyFolder(ctx, config.StandalonePolicies())
			return err
		}},
		step{"applying the resource definitions", p.applyDefinitions},
		step{"granting access to the controller", p.applyStandaloneAccess},
	)
	if err != nil {
		return fmt.Errorf("bootstrap %s: %w", cfg.Host, err)
	}
	return nil
}

// applyStandaloneAccess makes the controller's account, and grants what the manifests say.
func (p *platform) applyStandaloneAccess(ctx context.Context) error {
	account, err := decode(config.StandaloneAccount(), strings.NewReplacer())
	if err != nil {
		return err
	}
	if err := apply(ctx, p, account...); err != nil {
		return err
	}
	_, err = p.applyFolder(ctx, config.StandaloneRBAC())
	return err
}

// BootstrapClusterAPI grants the controller what it needs to serve the machines of Cluster API, in the cluster that
// cfg reaches and [BootstrapStandalone] has made ready. progress is told the step before it is taken.
func BootstrapClusterAPI(ctx context.Context, cfg *rest.Config, progress func(step string)) error {
	progress("granting access to Cluster API")
	return Apply(ctx, cfg, config.ClusterAPIRBAC())
}
