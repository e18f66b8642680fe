package framework

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/workspaces"
)

// Platform is a platform workspace, and a client of it: a user with the roles of
// the platform's people. Its methods are safe for concurrent use, except those that
// start and stop the controller.
type Platform struct {
	client.WithWatch

	// Path and Cluster name the workspace.
	Path    string
	Cluster logicalcluster.Name

	ground     ground
	controller *local.Controller
	options    local.ControllerOptions // of the controller
	space      atomic.Int64            // how many CIDRs were given out
}

// SharedPlatform returns the platform that the tests of this program share. Its
// controller runs.
func SharedPlatform(t testing.TB) *Platform {
	t.Helper()
	p, err := current(t).shared()
	if err != nil {
		t.Fatalf("shared: %v", err)
	}
	p.logOnFailure(t)
	return p
}

// NewPlatform returns a platform for this test alone. Its controller does not run yet.
func NewPlatform(t testing.TB) *Platform {
	t.Helper()
	return NewPlatformOf(t, workspaces.Options{})
}

// NewPlatformOf is NewPlatform with a workspace that is made of other manifests. Its
// path is not for the options to say.
func NewPlatformOf(t testing.TB, opts workspaces.Options) *Platform {
	t.Helper()
	w := current(t)
	opts.Workspace = fmt.Sprintf("root:platform-%d", w.serial.Add(1))
	p, err := w.newPlatform(t.Context(), opts)
	if err != nil {
		t.Fatalf("newPlatform: %v", err)
	}
	p.endWith(t)
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
	access, err := newUser(t.Context(), p.ground, p.Path, roles...)
	if err != nil {
		t.Fatalf("newUser: %v", err)
	}
	return access
}

// Admin returns a client of the admin of the kcp, or of the cluster, in the platform workspace.
func (p *Platform) Admin(t testing.TB) client.WithWatch {
	t.Helper()
	c, err := workspaces.NewClient(p.AdminConfig(t))
	if err != nil {
		t.Fatalf("workspaces.NewClient: %v", err)
	}
	return c
}

// AdminConfig returns the access of Admin.
func (p *Platform) AdminConfig(t testing.TB) *rest.Config {
	t.Helper()
	cfg, err := p.ground.At(p.Path)
	if err != nil {
		t.Fatalf("At: %v", err)
	}
	return cfg
}

// CIDR returns address space that no other test on this platform uses: a /16.
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

// StartController starts the controller, over the data it had before if any, and
// returns when it is ready.
func (p *Platform) StartController(t testing.TB) {
	t.Helper()
	if err := current(t).startController(t.Context(), p.controller); err != nil {
		t.Fatalf("startController: %v", err)
	}
}

// LaunchController starts the controller where it cannot be ready, and returns when it lives.
func (p *Platform) LaunchController(t testing.TB) {
	t.Helper()
	if err := errors.Join(current(t).build(), p.controller.Launch(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// StopController asks the controller to end, and waits.
func (p *Platform) StopController(t testing.TB) {
	t.Helper()
	if err := p.controller.Stop(); err != nil {
		t.Fatalf("Stop: %v", err)
	}
}

// Replica returns the same platform with another controller, which is not started
// and gets these flags. Replicas need a common etcd.
func (p *Platform) Replica(t testing.TB, name string, flags ...string) *Platform {
	t.Helper()
	return p.replica(t, name, p.options.Identity, flags...)
}

func (p *Platform) replica(t testing.TB, name string, identity *rest.Config, flags ...string) *Platform {
	t.Helper()
	options := p.options
	options.Dir, options.Identity, options.Flags = options.Dir+"-"+name, identity, flags
	replica, err := p.with(t.Context(), options)
	if err != nil {
		t.Fatalf("with: %v", err)
	}
	replica.endWith(t)
	return replica
}

// Reconfigured returns the same platform with a controller over the same data that gets these
// flags instead. The one before must have been stopped.
func (p *Platform) Reconfigured(t testing.TB, flags ...string) *Platform {
	t.Helper()
	return p.reconfigured(t, p.options.Identity, flags)
}

// Bootstrapping is Reconfigured with the kubeconfig of an admin and --bootstrap: the controller makes the platform
// ready itself, and asks for its tokens.
func (p *Platform) Bootstrapping(t testing.TB, flags ...string) *Platform {
	t.Helper()
	return p.reconfigured(t, p.AdminConfig(t), append([]string{"--bootstrap"}, flags...))
}

// Requesting is Reconfigured with the kubeconfig of a user and --request-token: the controller asks for its tokens, and the
// platform is as it is.
func (p *Platform) Requesting(t testing.TB, user *rest.Config, flags ...string) *Platform {
	t.Helper()
	return p.reconfigured(t, user, append([]string{"--request-token"}, flags...))
}

func (p *Platform) reconfigured(t testing.TB, identity *rest.Config, flags []string) *Platform {
	t.Helper()
	options := p.options
	options.Identity, options.Flags = identity, flags
	other, err := p.with(t.Context(), options)
	if err != nil {
		t.Fatalf("with: %v", err)
	}
	other.endWith(t)
	return other
}

// with returns the same platform with another controller, which is not started.
func (p *Platform) with(ctx context.Context, options local.ControllerOptions) (*Platform, error) {
	controller, err := local.NewController(ctx, options)
	return &Platform{
		WithWatch: p.WithWatch, Path: p.Path, Cluster: p.Cluster, ground: p.ground, controller: controller, options: options,
	}, err
}

// KillController ends the controller with SIGKILL.
func (p *Platform) KillController(t testing.TB) {
	t.Helper()
	if err := p.controller.Kill(); err != nil {
		t.Fatalf("Kill: %v", err)
	}
}

// PauseController stops the controller where it is, with SIGSTOP, as if its machine stood
// still. It must go on, or be killed, before it can be stopped.
func (p *Platform) PauseController(t testing.TB) {
	t.Helper()
	if err := p.controller.Pause(); err != nil {
		t.Fatalf("Pause: %v", err)
	}
}

// ResumeController lets a paused controller go on.
func (p *Platform) ResumeController(t testing.TB) {
	t.Helper()
	if err := p.controller.Resume(); err != nil {
		t.Fatalf("Resume: %v", err)
	}
}

// WaitControllerEnded waits until the controller has ended by itself.
func (p *Platform) WaitControllerEnded(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	if err := p.controller.AwaitEnd(ctx); err != nil {
		t.Fatalf("AwaitEnd: %v", err)
	}
}

// WebhookPort returns the port at which the controller answers CREATE, on this machine.
func (p *Platform) WebhookPort(t testing.TB) string {
	t.Helper()
	_, port, err := net.SplitHostPort(p.controller.WebhookAddress())
	if err != nil {
		t.Fatalf("net.SplitHostPort: %v", err)
	}
	return port
}

// LedgerDir returns the folder of the etcd inside the controller. Nobody else may open it
// while the controller runs.
func (p *Platform) LedgerDir() string { return p.controller.LedgerDir() }

// Probe returns an error if the controller answers a probe, like "/readyz", with
// anything but 200.
func (p *Platform) Probe(ctx context.Context, path string) error {
	return p.controller.Probe(ctx, path)
}

// Metrics returns the controller's metrics in the text format of Prometheus.
func (p *Platform) Metrics(t testing.TB) string {
	t.Helper()
	text, err := p.controller.Metrics(t.Context())
	if err != nil {
		t.Fatalf("Metrics: %v", err)
	}
	return text
}

func (w *world) startShared() (*Platform, error) {
	p, err := w.newPlatform(context.Background(), workspaces.Options{Workspace: workspaces.DefaultWorkspace})
	if err != nil {
		return nil, err
	}
	w.stopShared = p.controller.Stop
	return p, w.startController(context.Background(), p.controller)
}

// endWith has the controller end with the test: kcp serves it as long as it runs, and a
// suite has many. What it has logged is shown if the test has failed.
func (p *Platform) endWith(t testing.TB) {
	p.logOnFailure(t)
	t.Cleanup(func() {
		end := p.controller.Stop
		if t.Failed() {
			end = p.controller.Kill // it may stand still
		}
		if err := end(); err != nil {
			t.Errorf("end: %v", err)
		}
	})
}

// newPlatform makes a platform workspace, somebody to run it, and its controller,
// which is not started.
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
