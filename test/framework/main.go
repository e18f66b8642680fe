package framework

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/test/framework/local"
)

// sideBySide is how many tests run at once. They mostly wait, for kcp and the controller,
// so that cores are not what limits them.
const sideBySide = 6

// ground is a kcp, of one server or of several, or a cluster without kcp, which has no workspaces.
type ground interface {
	Start(ctx context.Context) error
	Stop() error
	Admin() (*rest.Config, error)
	TakeUser() (local.User, error)
	// At returns the access of the admin to a workspace, and As that of a user.
	At(workspace string) (*rest.Config, error)
	As(user local.User, workspace string) (*rest.Config, error)
}

// world is the kcp of this test program, and all that runs on it.
type world struct {
	dir string
	kcp ground

	// build compiles the controller, once.
	build func() error
	// cli compiles the command line, once, and returns where it is.
	cli func() (string, error)
	// shared returns the platform of SharedPlatform, and stopShared ends its controller.
	shared     func() (*Platform, error)
	stopShared func() error
	// kubernetes is the cluster of NewStandalone. standalone is set once a test has called that.
	kubernetes *local.Kubernetes
	standalone atomic.Bool
	// serial numbers workspaces, and names of tests that are not long enough.
	serial atomic.Int64
}

// here is set by Main before the first test runs.
var here *world

func current(t testing.TB) *world {
	t.Helper()
	if here == nil {
		t.Fatal("there is no kcp: write func TestMain(m *testing.M) { os.Exit(framework.Main(m)) }")
	}
	return here
}

// Main starts kcp, runs the tests of a package on it and stops everything. It
// returns the exit code of the program.
func Main(m *testing.M) int {
	return mainOn(m, func(ctx context.Context, dir string) (ground, error) { return local.NewKCP(ctx, dir) })
}

// MainWithoutKCP is Main for a package without kcp. One of its tests calls [NewStandalone].
func MainWithoutKCP(m *testing.M) int { return mainOn(m, nil) }

// mainOn is Main on a kcp that newGround makes in a folder. If newGround is nil, there is no kcp.
func mainOn(m *testing.M, newGround func(ctx context.Context, dir string) (ground, error)) int {
	code, err := run(m, newGround)
	if err != nil {
		fmt.Fprintln(os.Stderr, "framework:", err)
		return 1
	}
	return code
}

func run(m *testing.M, newGround func(ctx context.Context, dir string) (ground, error)) (code int, err error) {
	if err := allowParallel(); err != nil {
		return 1, err
	}
	dir, err := folder()
	if err != nil {
		return 1, err
	}
	w := &world{dir: dir}
	w.build = sync.OnceValue(w.buildController)
	w.cli = sync.OnceValues(w.buildCLI)
	w.shared, w.stopShared = sync.OnceValues(w.startShared), func() error { return nil }
	defer func() {
		if code != 0 {
			showFaults(w.kcpDir())
		}
		err = errors.Join(err, w.stop())
		if code == 0 && err == nil {
			err = os.RemoveAll(dir)
			return
		}
		fmt.Fprintf(os.Stderr, "framework: data and logs are kept in %s\n", dir)
	}()

	// Servers mostly wait while they start; the first test that wants the controller finds it built.
	go w.build() //nolint:errcheck // The start of the controller returns the error, and stop waits.
	if newGround != nil {
		if err := w.startKCP(context.Background(), newGround); err != nil {
			return 1, err
		}
	}
	here = w
	return m.Run(), nil
}

// startKCP starts the kcp that newGround makes in a folder.
func (w *world) startKCP(ctx context.Context, newGround func(ctx context.Context, dir string) (ground, error)) error {
	kcp, err := newGround(ctx, w.kcpDir())
	if err != nil {
		return err
	}
	w.kcp = kcp
	start := time.Now()
	if err := kcp.Start(ctx); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "framework: kcp was ready after %s\n", time.Since(start).Round(time.Millisecond))
	return w.makeLeanType(ctx)
}

// allowParallel lets sideBySide tests run at once, unless the command line gives a number.
func allowParallel() error {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if said {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(sideBySide))
}

// folder makes the folder of this run.
func folder() (string, error) {
	root, err := local.ModuleRoot()
	if err != nil {
		return "", err
	}
	parent := filepath.Join(root, ".cache", "test")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp(parent, filepath.Base(strings.TrimSuffix(os.Args[0], ".test"))+"-")
}

func (w *world) kcpDir() string { return filepath.Join(w.dir, "kcp") }

func (w *world) binary() string { return filepath.Join(w.dir, "ipam-controller") }

func (w *world) buildController() error {
	return local.Build(context.Background(), "./cmd/ipam-controller", w.binary())
}

func (w *world) startController(ctx context.Context, c *local.Controller) error {
	if err := w.build(); err != nil {
		return err
	}
	return c.Start(ctx)
}

// stop ends the controller that tests share, then the servers.
func (w *world) stop() error {
	errs := []error{w.stopShared()}
	if w.kubernetes != nil {
		errs = append(errs, w.kubernetes.Stop())
	}
	if w.kcp != nil {
		errs = append(errs, w.kcp.Stop())
	}
	_ = w.build() // A build that still runs would write into the folder.
	return errors.Join(errs...)
}
