package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/workspaces"
)

const (
	platform = "root:scale"
	// className is the class of all claims, and the name of the pool behind it.
	className = "shared"
	// patience is how long a controller may take for anything before the program gives up.
	patience = 10 * time.Minute
)

// stage is a kcp, with the controllers that take turns on it.
type stage struct {
	opts  *options
	say   func(format string, args ...any)
	dir   string
	kcp   *local.KCP
	admin *rest.Config
	ipam  *program
	bare  *program

	// What all clients share. One of each for every workspace would be the load's own memory.
	scheme *runtime.Scheme
	http   *http.Client
	mapper meta.RESTMapper

	permissions []apisv1alpha2.AcceptablePermissionClaim // that the export asks for

	tenants []client.WithWatch
	filled  int // claims that were made
}

// newStage makes everything ready. What it has made is taken down if it fails.
func newStage(ctx context.Context, opts *options, say func(string, ...any)) (*stage, error) {
	root, err := local.ModuleRoot()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, ".cache", "scale")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return nil, err
	}
	s := &stage{opts: opts, say: say, dir: dir, scheme: workspaces.NewScheme()}
	if err := s.up(ctx); err != nil {
		return nil, errors.Join(err, s.close(err))
	}
	return s, nil
}

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
	s.admin.QPS = -1
	if s.http, err = rest.HTTPClientFor(s.admin); err != nil {
		return err
	}
	s.say("making the platform workspace %s", platform)
	if err := workspaces.Bootstrap(ctx, s.admin, workspaces.Options{Workspace: platform}); err != nil {
		return err
	}
	identity, err := workspaces.ControllerConfig(ctx, s.admin, platform)
	if err != nil {
		return err
	}
	s.say("building the controllers")
	if s.ipam, err = s.newProgram(ctx, "./cmd/ipam-controller", identity, s.opts.controllerFlags...); err != nil {
		return err
	}
	if s.bare, err = s.newProgram(ctx, "./test/bench/bare", identity); err != nil {
		return err
	}
	if err := s.ipam.Start(ctx); err != nil {
		return err
	}
	return s.furnish(ctx)
}

// furnish makes the one class and its pool.
func (s *stage) furnish(ctx context.Context) error {
	c, err := workspaces.NewClient(workspaces.At(s.admin, platform))
	if err != nil {
		return err
	}
	s.mapper = c.RESTMapper()
	for _, object := range []client.Object{
		gen.Class(className),
		gen.Pool(className, gen.CIDR("10.0.0.0/8"), gen.Backs(className), gen.Visible(ipamv1alpha1.VisibilityPlatform)),
	} {
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T %s: %w", object, object.GetName(), err)
		}
	}
	return s.readPermissions(ctx, c)
}

// close stops what runs. The data and the logs of a run that failed are kept.
func (s *stage) close(failure error) error {
	var errs []error
	for _, p := range []*program{s.ipam, s.bare} {
		if p != nil && p.Running() {
			errs = append(errs, p.Stop())
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

// eventually calls check until it returns nil.
func eventually(ctx context.Context, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var missing error
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		// A call cut short by the end of the wait says less than the one before it.
		if seen := check(ctx); ctx.Err() == nil || missing == nil {
			missing = seen
		}
		return missing == nil, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("wait for %s: %w", what, err), missing)
	}
	return nil
}
