package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/test/bench/tenant"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/workspaces"
)

const (
	tenantCount   = 10 // tenants of a side; the clients are spread over them
	tenantsAtOnce = 4  // tenants that are made side by side
)

// stage is a kcp with the sides on it.
type stage struct {
	dir               string
	kcp               *local.KCP
	admin             *rest.Config
	bare, whole, ipam *side
	say               func(format string, args ...any)
}

// newStage makes everything ready. What it has made is taken down if it fails.
func newStage(ctx context.Context, opts *options, say func(string, ...any)) (*stage, error) {
	root, err := local.ModuleRoot()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, ".cache", "bench")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return nil, err
	}
	s := &stage{
		dir:   dir,
		say:   say,
		bare:  &side{name: "bare", program: "./test/bench/bare"},
		whole: &side{name: "whole", program: "./test/bench/bare", flags: []string{"--whole"}},
		ipam:  &side{name: "ipam", program: "./cmd/ipam-controller", flags: opts.controllerFlags},
	}
	if err := s.up(ctx); err != nil {
		return nil, errors.Join(err, s.close(err))
	}
	return s, nil
}

func (s *stage) sides() []*side { return []*side{s.bare, s.whole, s.ipam} }

func (s *stage) up(ctx context.Context) (err error) {
	if s.kcp, err = local.NewKCP(ctx, filepath.Join(s.dir, "kcp")); err != nil {
		return err
	}
	s.say("starting kcp: about 25 seconds")
	if err := s.kcp.Start(ctx); err != nil {
		return err
	}
	if s.admin, err = s.kcp.Admin(); err != nil {
		return err
	}
	for _, side := range s.sides() {
		if err := s.prepare(ctx, side); err != nil {
			return fmt.Errorf("side %s: %w", side.name, err)
		}
	}
	s.say("making the classes and the pools")
	return s.furnish(ctx)
}

// prepare makes a side's platform, its tenants, and its controller, and starts it.
func (s *stage) prepare(ctx context.Context, side *side) error {
	platform := "root:" + side.name
	s.say("%s: making the platform workspace %s and %d tenants", side.name, platform, tenantCount)
	if err := workspaces.Bootstrap(ctx, s.admin, workspaces.Options{Workspace: platform}); err != nil {
		return err
	}
	side.tenants = make([]*tenant.Tenant, tenantCount)
	group, making := errgroup.WithContext(ctx)
	group.SetLimit(tenantsAtOnce)
	for i := range side.tenants {
		group.Go(func() (err error) {
			side.tenants[i], err = tenant.New(making, tenant.Options{
				KCP: s.kcp, Admin: s.admin, Platform: platform, Path: fmt.Sprintf("%s-team-%d", platform, i+1),
			})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	identity, err := workspaces.ControllerConfig(ctx, s.admin, platform)
	if err != nil {
		return err
	}
	dir := filepath.Join(s.dir, side.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	s.say("%s: building and starting the controller", side.name)
	binary := filepath.Join(dir, "controller")
	if err := local.Build(ctx, side.program, binary); err != nil {
		return err
	}
	controller, err := local.NewController(ctx, local.ControllerOptions{
		Binary: binary, Dir: dir, Workspace: platform, Identity: identity, Flags: side.flags,
	})
	if err != nil {
		return err
	}
	side.controller = controller
	return controller.Start(ctx)
}

// close stops what runs. The data and the logs of a run that failed are kept.
func (s *stage) close(failure error) error {
	var errs []error
	for _, side := range s.sides() {
		for _, tenant := range side.tenants {
			if tenant != nil {
				tenant.Stop()
			}
		}
		if side.controller != nil {
			errs = append(errs, side.controller.Stop())
		}
	}
	if s.kcp != nil {
		errs = append(errs, s.kcp.Stop())
	}
	err := errors.Join(errs...)
	if failure != nil || err != nil {
		s.say("data and logs are kept in %s", s.dir)
		return err
	}
	return os.RemoveAll(s.dir)
}
