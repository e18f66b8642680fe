package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/test/framework/silent"
	"github.com/kcp-ipam/ipam/test/must"
)

// patience is how long a command may take in a test, on a busy machine.
const patience = 20 * time.Second

// needs has the arguments and flags without which a command cannot be called. Any other command is called by its name
// alone. If it needs more, it ends with a usage error, which fails the test.
var needs = map[string]string{
	"address show": "10.0.0.1", "claim move": "x --to-name y", "claim pin": "x", "claim release": "x", "claim show": "x", "class create": "x --family IPv4", "class show": "x",
	"controller-kubeconfig": "root:x", "grant": "ipam-viewer --user x", "history": "10.0.0.1", "import": "FILE", "pool create": "x --cidr 10.0.0.0/8",
	"pool next": "x --length 28", "pool release": "x", "pool show": "x", "tenant bind": "root:x", "why": "x",
}

// If a server is down, hangs, or never ends its answer, each command that asks a server ends soon, says why, and has
// the exit code for a server that is away.
func TestCommands_EndWithoutAServer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "plan.csv")
	must.Do(t, os.WriteFile(file, []byte("kind,name,cidr\npool,lab,10.8.0.0/16\n"), 0o600))
	empty := filepath.Join(t.TempDir(), "kubeconfig")
	must.Do(t, os.WriteFile(empty, []byte("{apiVersion: v1, kind: Config}"), 0o600))
	servers := silent.Servers(t)
	for _, path := range leaves(newRoot(session.New(genericiooptions.NewTestIOStreamsDiscard())), "") {
		for name, server := range servers {
			t.Run(strings.ReplaceAll(path, " ", "_")+"/"+name, func(t *testing.T) {
				t.Parallel()
				args := append(strings.Fields(path), strings.Fields(strings.ReplaceAll(needs[path], "FILE", file))...)
				args = append(args, "--server", server, "--request-timeout", "100ms", "--kubeconfig", empty)
				var out, errOut bytes.Buffer
				s := session.New(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
				begun := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				code := s.Execute(ctx, newRoot(s), args)
				if took := time.Since(begun); took >= patience {
					t.Errorf("%v took %s; want it to end soon", args, took)
				}
				if code != exit.Unavailable || !strings.Contains(errOut.String(), "error: ") || !strings.Contains(errOut.String(), "hint: ") {
					t.Errorf("%v ended with %d; want %d with a reason and a hint\n%s%s", args, code, exit.Unavailable, &out, &errOut)
				}
			})
		}
	}
}

// leaves returns the commands below cmd that have no commands of their own, each by the words that call it.
func leaves(cmd *cobra.Command, path string) (found []string) {
	if !cmd.HasSubCommands() {
		return []string{path}
	}
	for _, below := range cmd.Commands() {
		found = append(found, leaves(below, strings.TrimSpace(path+" "+below.Name()))...)
	}
	slices.Sort(found)
	return found
}
