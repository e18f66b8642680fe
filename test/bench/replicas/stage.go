package replicas

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/bench/tenant"
	"github.com/kcp-ipam/ipam/test/chaos/etcd"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/framework/wire"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/workspaces"
)

// patience is how long anything may take before the program gives up.
const patience = 2 * time.Minute

// tenantCount is how many tenants a team has. The clients are spread over the tenants, and all claim from one pool of
// the platform.
const tenantCount = 4

// class is the class of all claims, and the name of the pool that backs it.
const class = "shared"

// first is the claim of each tenant that stays for the whole run.
const first = "first"

// stage is a kcp, an etcd of three members, and the teams on them.
type stage struct {
	*harness.Ground
	*options
	binary string
	store  *etcd.Cluster
	teams  []*team
}

// team is a group of controllers that do the work of one platform.
type team struct {
	name     string
	size     int
	flags    []string
	address  *wire.Link // of the webhooks of all replicas
	replicas []*local.Controller
	tenants  []*tenant.Tenant
}

// path returns the team's platform workspace.
func (t *team) path() string { return "root:" + t.name }

// newStage makes everything ready. If that fails, it removes what it has made.
func newStage(ctx context.Context, opts *options, say harness.Say) (*stage, error) {
	ground, err := harness.NewGround(ctx, "bench-replicas", say)
	if err != nil {
		return nil, err
	}
	s := &stage{
		Ground: ground, options: opts, binary: filepath.Join(ground.Dir, "ipam-controller"),
		teams: []*team{
			{name: "one", size: 1},
			{name: "elected", size: 3, flags: []string{"--leader-elect"}},
		},
	}
	if err := s.up(ctx); err != nil {
		return nil, s.close(err)
	}
	return s, nil
}

func (s *stage) up(ctx context.Context) (err error) {
	s.Say("starting three members of etcd, and building the controller")
	dir := filepath.Join(s.Dir, "etcd")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	secure, err := etcd.Certificates(dir)
	if err != nil {
		return err
	}
	s.store, err = etcd.New(ctx, etcd.Options{Dir: dir, Members: 3, Fsync: true, TLS: secure})
	if err != nil {
		return err
	}
	if err := local.Build(ctx, "./cmd/ipam-controller", s.binary); err != nil {
		return err
	}
	for _, t := range s.teams {
		if err := s.prepare(ctx, t); err != nil {
			return fmt.Errorf("team %s: %w", t.name, err)
		}
	}
	return nil
}

// prepare makes a team's platform, its controllers and its tenants.
func (s *stage) prepare(ctx context.Context, t *team) error {
	s.Say("%s: making the platform workspace %s, %d controllers and %d tenants", t.name, t.path(), t.size, tenantCount)
	if err := workspaces.Bootstrap(ctx, s.Admin, workspaces.Options{Workspace: t.path()}); err != nil {
		return err
	}
	identity, err := workspaces.TokenConfig(ctx, workspaces.At(s.Admin, t.path()), 24*time.Hour)
	if err != nil {
		return err
	}
	if t.address, err = wire.New(); err != nil {
		return err
	}
	for i := range t.size {
		controller, err := local.NewController(ctx, local.ControllerOptions{
			Binary: s.binary, Dir: filepath.Join(s.Dir, fmt.Sprint(t.name, "-", i)), Workspace: t.path(), Identity: identity,
			Flags: slices.Concat(s.store.Flags(), []string{"--etcd-prefix=/" + t.name, "--webhook-url=https://" + t.address.Addr()}, t.flags),
		})
		if err != nil {
			return err
		}
		t.address.Add(controller.WebhookAddress())
		t.replicas = append(t.replicas, controller)
		if err := controller.Start(ctx); err != nil {
			return err
		}
	}
	platform, err := workspaces.NewClient(workspaces.At(s.Admin, t.path()))
	if err != nil {
		return err
	}
	pool := gen.Pool(class, gen.CIDR("10.0.0.0/8"), gen.Backs(class), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	if err := errors.Join(platform.Create(ctx, gen.Class(class)), platform.Create(ctx, pool)); err != nil {
		return err
	}
	for i := range tenantCount {
		one, err := tenant.New(ctx, tenant.Options{
			Ground: s.Ground, Platform: t.path(), Path: fmt.Sprintf("%s-team-%d", t.path(), i+1),
		})
		if err != nil {
			return err
		}
		t.tenants = append(t.tenants, one)
		if _, err := one.Claim(ctx, first, tenant.Bound, wanted()...); err != nil {
			return err
		}
	}
	return nil
}

// wanted returns the options of every claim.
func wanted() []gen.ClaimOption { return []gen.ClaimOption{gen.OfClass(class), gen.Length(28)} }

// close stops everything that runs, and returns failure together with its own errors.
func (s *stage) close(failure error) error {
	errs := []error{failure}
	for _, t := range s.teams {
		for _, one := range t.tenants {
			one.Stop()
		}
		for _, replica := range t.replicas {
			errs = append(errs, replica.Stop())
		}
		if t.address != nil {
			errs = append(errs, t.address.Close())
		}
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	return s.Close(errs...)
}
