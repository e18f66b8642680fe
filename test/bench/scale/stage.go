package scale

import (
	"context"
	"fmt"
	"net/http"
	"time"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/bench/harness"
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
	*harness.Ground
	opts *options
	ipam *program
	bare *program

	// What all clients share. One of each for every workspace would be the load's own memory.
	scheme *runtime.Scheme
	http   *http.Client
	mapper meta.RESTMapper

	permissions []apisv1alpha2.AcceptablePermissionClaim // that the export asks for

	tenants []client.WithWatch
	filled  int // claims that were made
}

// newStage makes everything ready. What it has made is taken down if it fails.
func newStage(ctx context.Context, opts *options, say harness.Say) (*stage, error) {
	ground, err := harness.NewGround(ctx, "scale", say)
	if err != nil {
		return nil, err
	}
	s := &stage{Ground: ground, opts: opts, scheme: workspaces.NewScheme()}
	if err := s.up(ctx); err != nil {
		return nil, s.close(err)
	}
	return s, nil
}

func (s *stage) up(ctx context.Context) (err error) {
	s.Admin.QPS = -1
	if s.http, err = rest.HTTPClientFor(s.Admin); err != nil {
		return err
	}
	s.Say("making the platform workspace %s", platform)
	if err := workspaces.Bootstrap(ctx, s.Admin, workspaces.Options{Workspace: platform}); err != nil {
		return err
	}
	identity, err := workspaces.TokenConfig(ctx, workspaces.At(s.Admin, platform), 24*time.Hour)
	if err != nil {
		return err
	}
	s.Say("building the controllers")
	if s.ipam, err = s.newProgram(ctx, origin{pkg: "./cmd/ipam-controller", metrics: "claim"}, identity, s.opts.controllerFlags...); err != nil {
		return err
	}
	if s.bare, err = s.newProgram(ctx, origin{pkg: "./test/bench", command: "bare", metrics: "bare"}, identity); err != nil {
		return err
	}
	if err := s.ipam.Start(ctx); err != nil {
		return err
	}
	return s.furnish(ctx)
}

// furnish makes the one class and its pool.
func (s *stage) furnish(ctx context.Context) error {
	c, err := workspaces.NewClient(workspaces.At(s.Admin, platform))
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

// close stops what runs, and returns the failure if there was one.
func (s *stage) close(failure error) error {
	errs := []error{failure}
	for _, p := range []*program{s.ipam, s.bare} {
		if p != nil && p.Running() {
			errs = append(errs, p.Stop())
		}
	}
	return s.Close(errs...)
}
