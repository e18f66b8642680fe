package kcp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/bench/tenant"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/workspaces"
)

const (
	tenantCount   = 10 // tenants of a side; the clients are spread over them
	tenantsAtOnce = 4  // tenants that are made side by side
)

// stage is a kcp, and the sides on it.
type stage struct {
	*harness.Ground
	bare, ipam *side
	// plain has no controller and no webhook: its claims are stored without an answer.
	plain *side
}

// newStage makes everything ready. If that fails, it removes what it has made.
func newStage(ctx context.Context, opts *options, say harness.Say) (*stage, error) {
	ground, err := harness.NewGround(ctx, "bench", say)
	if err != nil {
		return nil, err
	}
	s := &stage{
		Ground: ground,
		bare:   &side{name: "bare", program: "./test/bench", command: "bare"},
		ipam:   &side{name: "ipam", program: "./cmd/ipam-controller", flags: opts.controllerFlags},
		plain:  &side{name: "plain"},
	}
	if err := s.up(ctx); err != nil {
		return nil, s.close(err)
	}
	return s, nil
}

func (s *stage) sides() []*side { return []*side{s.bare, s.ipam, s.plain} }

func (s *stage) up(ctx context.Context) error {
	for _, side := range s.sides() {
		if err := s.prepare(ctx, side); err != nil {
			return fmt.Errorf("side %s: %w", side.name, err)
		}
	}
	s.Say("making the classes and the pools")
	return s.furnish(ctx)
}

// prepare makes a side's platform and its tenants, and starts its controller if it has one.
func (s *stage) prepare(ctx context.Context, side *side) error {
	platform := "root:" + side.name
	s.Say("%s: making the platform workspace %s and %d tenants", side.name, platform, tenantCount)
	if err := workspaces.Bootstrap(ctx, s.Admin, workspaces.Options{Workspace: platform}); err != nil {
		return err
	}
	side.tenants = make([]*tenant.Tenant, tenantCount)
	group, making := errgroup.WithContext(ctx)
	group.SetLimit(tenantsAtOnce)
	for i := range side.tenants {
		group.Go(func() (err error) {
			side.tenants[i], err = tenant.New(making, tenant.Options{
				Ground: s.Ground, Platform: platform, Path: fmt.Sprintf("%s-team-%d", platform, i+1),
			})
			return err
		})
	}
	if err := group.Wait(); err != nil || side.program == "" {
		return err
	}
	identity, err := workspaces.TokenConfig(ctx, workspaces.At(s.Admin, platform), 24*time.Hour)
	if err != nil {
		return err
	}
	dir := filepath.Join(s.Dir, side.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	s.Say("%s: building and starting the controller", side.name)
	binary := filepath.Join(dir, "controller")
	if err := local.Build(ctx, side.program, binary); err != nil {
		return err
	}
	controller, err := local.NewController(ctx, local.ControllerOptions{
		Binary: binary, Command: side.command, Dir: dir, Workspace: platform, Identity: identity, Flags: side.flags,
	})
	if err != nil {
		return err
	}
	side.controller = controller
	return controller.Start(ctx)
}

// close stops everything that runs, and returns failure together with its own errors.
func (s *stage) close(failure error) error {
	errs := []error{failure}
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
	return s.Close(errs...)
}

// patience is how long anything may take before the program gives up.
const patience = 2 * time.Minute

// side is one of the compared controllers, and its tenants.
type side struct {
	name       string
	program    string
	command    string
	flags      []string
	controller *local.Controller
	tenants    []*tenant.Tenant
	platform   client.Client // only for a side whose pool has to be empty between the rounds
	stocked    [][]string    // claims to be deleted, by client
	resting    idle          // what it uses while it is idle
}

// clean deletes the claims of a round, and waits until nothing of them is left, so that no round pays for a former
// one.
func (s *side) clean(ctx context.Context) error {
	if err := tenant.Clean(ctx, s.tenants); err != nil {
		return err
	}
	if s.platform == nil {
		return nil
	}
	return retry.Do(ctx, patience, "wait for the pool to be as it was", s.cleaned)
}

// cleaned returns an error while any part of the pool is allocated.
func (s *side) cleaned(ctx context.Context) error {
	pool := &ipamv1alpha1.IPPool{}
	if err := s.platform.Get(ctx, client.ObjectKey{Name: sharedClass}, pool); err != nil {
		return err
	}
	if pool.Status.Capacity == nil || pool.Status.Capacity.Allocated != "0" {
		return fmt.Errorf("of pool %s more than 0 addresses are allocated: %+v", pool.Name, pool.Status.Capacity)
	}
	return nil
}
