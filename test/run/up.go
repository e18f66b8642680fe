package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/config"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/workspaces"
)

var tenants = []string{"root:team-a", "root:team-b"}

// run brings everything up, stays up until ctx ends, and takes it down again.
func (r *run) run(ctx context.Context) error {
	dir, err := r.folder()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	defer unlock()

	err = r.up(ctx, dir)
	if err == nil && !r.once {
		err = r.stay(ctx)
	}
	if ctx.Err() != nil {
		err = nil // somebody has asked for the end
	}
	r.say("stopping")
	return errors.Join(err, r.down())
}

// folder is where everything is kept.
func (r *run) folder() (string, error) {
	if r.dir != "" {
		return filepath.Abs(r.dir)
	}
	root, err := local.ModuleRoot()
	return filepath.Join(root, ".run"), err
}

// up starts everything and has the tenants claim.
func (r *run) up(ctx context.Context, dir string) (err error) {
	if r.kcp, err = local.NewKCP(ctx, filepath.Join(dir, "kcp")); err != nil {
		return err
	}
	r.say("starting kcp: about 25 seconds, log in %s", r.kcp.Log())
	if err := r.kcp.Start(ctx); err != nil {
		return err
	}
	admin, err := r.kcp.Admin()
	if err != nil {
		return err
	}
	// kcp has a new token after each start: the user's shells need it from now on.
	if err := writeKubeconfig(filepath.Join(dir, kubeconfigName), admin); err != nil {
		return err
	}
	if r.controller, err = r.prepare(ctx, admin, dir); err != nil {
		return err
	}
	r.say("starting the controller: log in %s", r.controller.Log())
	if err := r.controller.Start(ctx); err != nil {
		return err
	}
	if err := r.claim(ctx, admin); err != nil {
		return err
	}
	if !r.once {
		fmt.Fprint(r.out, hints(filepath.Join(dir, kubeconfigName)))
	}
	return nil
}

// stay returns when ctx ends, or something that should not.
func (r *run) stay(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.kcp.Ended():
		return errors.New("kcp has ended by itself")
	case <-r.controller.Ended():
		return errors.New("the controller has ended by itself")
	}
}

// down stops what was started, in good order.
func (r *run) down() error {
	var errs []error
	if r.controller != nil {
		errs = append(errs, r.controller.Stop())
	}
	if r.kcp != nil {
		errs = append(errs, r.kcp.Stop())
	}
	return errors.Join(errs...)
}

// prepare makes the platform and its tenants, and returns the controller for them.
func (r *run) prepare(ctx context.Context, admin *rest.Config, dir string) (*local.Controller, error) {
	if err := workspaces.Bootstrap(ctx, admin, workspaces.Options{
		Progress: func(step string) { r.say("%s", step) },
	}); err != nil {
		return nil, err
	}
	for _, tenant := range tenants {
		r.say("making the tenant %s", tenant)
		if _, err := workspaces.EnsureTenant(ctx, admin, workspaces.TenantOptions{Workspace: tenant}); err != nil {
			return nil, err
		}
	}
	identity, err := workspaces.ControllerConfig(ctx, admin, workspaces.DefaultWorkspace)
	if err != nil {
		return nil, err
	}
	r.say("building the controller")
	binary := filepath.Join(dir, "ipam-controller")
	if err := local.Build(ctx, "./cmd/ipam-controller", binary); err != nil {
		return nil, err
	}
	return local.NewController(ctx, local.ControllerOptions{
		Binary:    binary,
		Dir:       filepath.Join(dir, "controller"),
		Workspace: workspaces.DefaultWorkspace,
		Identity:  identity,
	})
}

// claim applies the samples, waits until the claims in them are bound, and lists all claims
// as they are. Users may have changed what is in the samples: only a run with --once fails if
// a sample cannot be applied or bound.
func (r *run) claim(ctx context.Context, admin *rest.Config) error {
	r.say("applying the classes and pools of config/samples/platform")
	if err := r.tolerate(ctx, workspaces.Apply(ctx, workspaces.At(admin, workspaces.DefaultWorkspace), config.PlatformSamples())); err != nil {
		return err
	}
	for _, tenant := range tenants {
		r.say("applying the claim of config/samples/tenant in %s", tenant)
		if err := r.tolerate(ctx, r.sample(ctx, admin, tenant)); err != nil {
			return err
		}
	}
	table, err := claimTable(ctx, admin)
	if err := r.tolerate(ctx, err); err != nil {
		return err
	}
	fmt.Fprintf(r.out, "\n%s\n", table)
	return nil
}

// sample applies the claim of the samples in a tenant's workspace and waits until it is bound.
func (r *run) sample(ctx context.Context, admin *rest.Config, tenant string) error {
	if err := workspaces.Apply(ctx, workspaces.At(admin, tenant), config.TenantSamples()); err != nil {
		return err
	}
	return awaitSample(ctx, admin, tenant)
}

// tolerate says what is wrong with a sample, and lets the run go on unless it is --once or is
// being stopped.
func (r *run) tolerate(ctx context.Context, err error) error {
	if r.once || err == nil || ctx.Err() != nil {
		return err
	}
	r.say("going on without it: %v", err)
	return nil
}
