package framework

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// Platform is a platform workspace, and a client of it: a user with the roles of
// the platform's people. Its methods are safe for concurrent use, except those that
// start and stop the controller.
type Platform struct {
	client.WithWatch
	Controller

	// Path and Cluster name the workspace.
	Path    string
	Cluster logicalcluster.Name

	ground  ground
	options local.ControllerOptions // of the controller
	space   atomic.Int64            // how many CIDRs were given out
}

// SharedPlatform returns the platform that the tests of this program share. Its
// controller runs.
func SharedPlatform(t testing.TB) *Platform {
	t.Helper()
	p := must.Get(current(t).shared())(t)
	showOnFailure(t, p.process.Log())
	return p
}

// NewPlatform returns a platform for this test alone. Its controller does not run yet.
func NewPlatform(t testing.TB) *Platform {
	t.Helper()
	return NewPlatformOf(t, workspaces.Options{})
}

// NewPlatformOf is NewPlatform with a workspace that is made from other manifests. The path in opts is ignored.
func NewPlatformOf(t testing.TB, opts workspaces.Options) *Platform {
	t.Helper()
	w := current(t)
	opts.Workspace = fmt.Sprintf("root:platform-%d", w.serial.Add(1))
	p := must.Get(w.newPlatform(t.Context(), opts))(t)
	endWith(t, p.process)
	return p
}

// User returns another user with these cluster roles in the platform workspace
// and no right elsewhere.
func (p *Platform) User(t testing.TB, roles ...string) client.WithWatch {
	t.Helper()
	return user(t, p.ground, p.Path, roles...)
}

// UserConfig returns the access of User.
func (p *Platform) UserConfig(t testing.TB, roles ...string) *rest.Config {
	t.Helper()
	return must.Get(newUser(t.Context(), p.ground, p.Path, roles...))(t)
}

// Admin returns a client of the admin of the kcp, or of the cluster, in the platform workspace.
func (p *Platform) Admin(t testing.TB) client.WithWatch {
	t.Helper()
	return must.Get(workspaces.NewClient(p.AdminConfig(t)))(t)
}

// AdminConfig returns the access of Admin.
func (p *Platform) AdminConfig(t testing.TB) *rest.Config {
	t.Helper()
	return must.Get(p.ground.At(p.Path))(t)
}

// CIDR returns a /16 that no other test on this platform uses.
func (p *Platform) CIDR(t testing.TB) ipamv1alpha1.CIDR {
	t.Helper()
	n := p.space.Add(1)
	if n > 255 {
		t.Fatal("the tests have used up 10.0.0.0/8")
	}
	return ipamv1alpha1.CIDR(fmt.Sprintf("10.%d.0.0/16", n))
}

// Identity returns the access of the controller, to the platform workspace.
func (p *Platform) Identity() *rest.Config { return rest.CopyConfig(p.options.Identity) }

// Replica returns the same platform with another controller, which is not started and gets these flags. All replicas
// need one common etcd.
func (p *Platform) Replica(t testing.TB, name string, flags ...string) *Platform {
	t.Helper()
	return p.replica(t, name, p.options.Identity, flags...)
}

func (p *Platform) replica(t testing.TB, name string, identity *rest.Config, flags ...string) *Platform {
	t.Helper()
	options := p.options
	options.Dir, options.Identity, options.Flags = options.Dir+"-"+name, identity, flags
	replica := must.Get(p.with(t.Context(), options))(t)
	endWith(t, replica.process)
	return replica
}

// Reconfigured returns the same platform with a controller over the same data, which gets only these flags. The
// former controller must have been stopped.
func (p *Platform) Reconfigured(t testing.TB, flags ...string) *Platform {
	t.Helper()
	return p.reconfigured(t, p.options.Identity, flags)
}

// Bootstrapping is Reconfigured with the kubeconfig of an admin and --bootstrap: the controller makes the platform
// ready, and requests its tokens by itself.
func (p *Platform) Bootstrapping(t testing.TB, flags ...string) *Platform {
	t.Helper()
	return p.reconfigured(t, p.AdminConfig(t), append([]string{"--bootstrap"}, flags...))
}

// Requesting is Reconfigured with the kubeconfig of a user and --request-token: the controller requests its tokens,
// and leaves the platform as it is.
func (p *Platform) Requesting(t testing.TB, user *rest.Config, flags ...string) *Platform {
	t.Helper()
	return p.reconfigured(t, user, append([]string{"--request-token"}, flags...))
}

func (p *Platform) reconfigured(t testing.TB, identity *rest.Config, flags []string) *Platform {
	t.Helper()
	options := p.options
	options.Identity, options.Flags = identity, flags
	other := must.Get(p.with(t.Context(), options))(t)
	endWith(t, other.process)
	return other
}

// with returns the same platform with another controller, which is not started.
func (p *Platform) with(ctx context.Context, options local.ControllerOptions) (*Platform, error) {
	controller, err := local.NewController(ctx, options)
	return &Platform{
		WithWatch: p.WithWatch, Path: p.Path, Cluster: p.Cluster, ground: p.ground, Controller: Controller{controller}, options: options,
	}, err
}

func (w *world) startShared() (*Platform, error) {
	p, err := w.newPlatform(context.Background(), workspaces.Options{Workspace: workspaces.DefaultWorkspace})
	if err != nil {
		return nil, err
	}
	w.stopShared = p.process.Stop
	return p, w.startController(context.Background(), p.process)
}

// newPlatform makes a platform workspace, a user to run it, and its controller, which is not started.
func (w *world) newPlatform(ctx context.Context, opts workspaces.Options) (*Platform, error) {
	path := opts.Workspace
	admin, err := w.kcp.Admin()
	if err != nil {
		return nil, err
	}
	if err := w.place(ctx, path, RootShard); err != nil {
		return nil, err
	}
	if err := workspaces.Bootstrap(ctx, admin, opts); err != nil {
		return nil, err
	}
	cluster, err := workspaces.EnsureWorkspace(ctx, admin, path)
	if err != nil {
		return nil, err
	}
	staff, err := newClient(ctx, w.kcp, path, "ipam-class-admin", "ipam-shared-pool-admin")
	if err != nil {
		return nil, err
	}
	identity, err := workspaces.TokenConfig(ctx, workspaces.At(admin, path), tokenLifetime)
	if err != nil {
		return nil, err
	}
	p := &Platform{WithWatch: staff, Path: path, Cluster: cluster, ground: w.kcp}
	return p.with(ctx, local.ControllerOptions{
		Binary:    w.binary(),
		Dir:       filepath.Join(w.dir, logicalcluster.NewPath(path).Base()),
		Workspace: path,
		Identity:  identity,
	})
}
