package framework

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// CLI is the command line, logged in as a user of a workspace.
type CLI struct {
	// Binary is the program, kubectl-ipam, and Kubeconfig its access.
	Binary, Kubeconfig string
}

// Ran is the output and the exit code of a program.
type Ran struct {
	Out, Err string
	Code     int
}

// CLI returns the command line of the tenant's user. With roles, it is that of another user, who has these cluster
// roles in the tenant's workspace and no right elsewhere.
func (tn *Tenant) CLI(t testing.TB, roles ...string) CLI {
	t.Helper()
	if len(roles) == 0 {
		return newCLI(t, tn.Config())
	}
	return userCLI(t, current(t).kcp, tn.Path, roles...)
}

// CLI returns the command line of another user with these cluster roles in the
// platform workspace and no right elsewhere.
func (p *Platform) CLI(t testing.TB, roles ...string) CLI {
	t.Helper()
	return userCLI(t, p.ground, p.Path, roles...)
}

func userCLI(t testing.TB, g ground, workspace string, roles ...string) CLI {
	t.Helper()
	cfg := must.Get(newUser(t.Context(), g, workspace, roles...))(t)
	return newCLI(t, cfg)
}

// AdminCLI returns the command line of kcp's own admin in a workspace.
func AdminCLI(t testing.TB, workspace string) CLI {
	t.Helper()
	return newCLI(t, workspaces.At(AdminConfig(t), workspace))
}

func newCLI(t testing.TB, cfg *rest.Config) CLI {
	t.Helper()
	binary := must.Get(current(t).cli())(t)
	kubeconfig := must.Get(local.Kubeconfig(cfg))(t)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must.Do(t, os.WriteFile(file, kubeconfig, 0o600))
	return CLI{Binary: binary, Kubeconfig: file}
}

// buildCLI compiles the command line into a folder, together with its completion for kubectl.
func (w *world) buildCLI() (string, error) {
	dir := filepath.Join(w.dir, "cli")
	root, err := local.ModuleRoot()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	const completion = "kubectl_complete-ipam"
	if err := os.Symlink(filepath.Join(root, "cmd", "kubectl-ipam", completion), filepath.Join(dir, completion)); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "kubectl-ipam")
	return binary, local.Build(context.Background(), "./cmd/kubectl-ipam", binary)
}

// Run runs one command line to its end.
func (c CLI) Run(t testing.TB, args ...string) Ran {
	t.Helper()
	return c.RunIn(t, c.Binary, args...)
}

// RunIn runs another program with the same access. The command line is on the program's PATH.
func (c CLI) RunIn(t testing.TB, program string, args ...string) Ran {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig,
		"PATH="+filepath.Dir(c.Binary)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %s: %v", program, err)
	}
	return Ran{Out: out.String(), Err: errs.String(), Code: cmd.ProcessState.ExitCode()}
}

// Kubectl returns a kubectl: the one on the PATH, else one built from tools/kubectl.
func Kubectl(t testing.TB) string {
	t.Helper()
	if found, err := exec.LookPath("kubectl"); err == nil {
		return found
	}
	root := must.Get(local.ModuleRoot())(t)
	binary := filepath.Join(t.TempDir(), "kubectl")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "k8s.io/kubernetes/cmd/kubectl")
	build.Dir = filepath.Join(root, "tools", "kubectl")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build kubectl: %v\n%s", err, out)
	}
	return binary
}
