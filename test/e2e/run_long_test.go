//go:build long

package e2e

import (
	"bufio"
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// The program behind `make run`, run again over its former data, shows the same allocations: one of each tenant, from
// the samples' pool. A claim of the user that cannot be bound is listed, and stops nothing. The kubeconfig is valid
// once kcp is up.
func TestLong_RunTwice(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	typo := gen.Claim("typo", gen.OfClass("internal"), gen.Length(16))
	first := r.run("Ctrl-C stops it", func(tenant client.Client) {
		if err := tenant.Create(t.Context(), typo); err != nil {
			t.Errorf("Create: %v", err)
		}
	})
	samples := shownClaim.FindAllStringSubmatch(first, -1)
	if len(samples) != 2 {
		t.Fatalf("the first run shows %q; want a claim of each of two tenants", samples)
	}
	var blocks []netip.Prefix
	for _, sample := range samples {
		blocks = append(blocks, netip.MustParsePrefix(sample[1]))
	}
	disjointIn(t, "10.64.0.0/12", blocks...)

	second := r.run("starting the controller", func(tenant client.Client) {
		if err := tenant.List(t.Context(), &ipamv1alpha1.IPClaimList{}); err != nil {
			t.Errorf("the kubeconfig while the second run starts: %v", err)
		}
	}, "--once")
	var again []netip.Prefix
	for _, sample := range shownClaim.FindAllStringSubmatch(second, -1) {
		again = append(again, netip.MustParsePrefix(sample[1]))
	}
	if !slices.Equal(blocks, again) {
		t.Errorf("the first run shows the blocks %v, the second %v", blocks, again)
	}
	if !regexp.MustCompile(`root:team-a +default/typo +internal +- +none: PrefixLengthRejected`).MatchString(second) {
		t.Errorf("the second run does not list the claim that cannot be bound:\n%s", second)
	}
}

// shownClaim matches the line with which the program shows a bound claim of the samples.
var shownClaim = regexp.MustCompile(`root:team-[ab] +default/web +internal +internal-a +([0-9./]+)`)

// runner runs the program behind `make run`, in a new folder.
type runner struct {
	t                  *testing.T
	program, root, dir string
}

func newRunner(t *testing.T) runner {
	t.Helper()
	r := runner{t: t, program: filepath.Join(t.TempDir(), "run"), dir: t.TempDir()}
	must.Do(t, local.Build(t.Context(), "./test/run", r.program))
	var err error
	if r.root, err = local.ModuleRoot(); err != nil {
		t.Fatal(err)
	}
	return r
}

// run starts the program. After a line that contains the words of after, it calls act as the user of team-a. Then it
// interrupts the program, unless that ends by itself, and returns the output.
func (r runner) run(after string, act func(tenant client.Client), args ...string) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Minute) // on a busy machine
	defer cancel()
	cmd := exec.CommandContext(ctx, r.program, append(args, "--dir", r.dir)...)
	cmd.Dir = r.root
	read, write, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	defer read.Close()
	cmd.Stdout, cmd.Stderr = write, write
	must.Do(r.t, cmd.Start())
	_ = write.Close()
	var out strings.Builder
	for lines := bufio.NewScanner(read); lines.Scan(); {
		out.WriteString(lines.Text() + "\n")
		if !strings.Contains(lines.Text(), after) {
			continue
		}
		act(r.tenant())
		if !slices.Contains(args, "--once") {
			_ = cmd.Process.Signal(os.Interrupt)
		}
	}
	if err := cmd.Wait(); err != nil {
		log, _ := os.ReadFile(filepath.Join(r.dir, "controller", "controller.log")) // else it would go with the folder
		r.t.Fatalf("%v\n%s\nthe controller's log:\n%s", err, &out, log)
	}
	return out.String()
}

// tenant returns a client of team-a, with the kubeconfig that the program has written.
func (r runner) tenant() client.Client {
	r.t.Helper()
	file := filepath.Join(r.dir, "admin.kubeconfig")
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: file}, &clientcmd.ConfigOverrides{CurrentContext: "team-a"}).ClientConfig()
	if err != nil {
		r.t.Errorf("%s: %v", file, err)
		cfg = &rest.Config{}
	}
	return must.Get(workspaces.NewClient(cfg))(r.t)
}
