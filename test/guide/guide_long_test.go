//go:build long

package guide

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/must"
)

// The pages hold on a kcp that is already running. It also stands in for the cluster to which the controller is
// deployed, as far as no pods need to run.
func TestLong_PagesHoldOnAKCP(t *testing.T) {
	kcp, err := local.NewKCP(t.Context(), t.TempDir())
	if err == nil {
		err = kcp.Start(t.Context())
	}
	if err != nil {
		t.Fatalf("start kcp: %v", err)
	}
	t.Cleanup(func() {
		if err := kcp.Stop(); err != nil {
			t.Errorf("stop kcp: %v", err)
		}
	})
	p := newPlace(t, "KUBECONFIG="+kcp.Kubeconfig())
	p.follow(t, "docs/getting-started.md", "Install")
	p.follow(t, "docs/getting-started.md", "On a kcp you have")
	p.write(t, []byte("stands in for what the reader has"),
		"etcd/ca.crt", "etcd/client.crt", "etcd/client.key", "metrics/clients-ca.crt", "metrics/server.crt", "metrics/server.key")
	p.follow(t, "docs/deploy.md", "")
}

// The pages hold without kcp: with make run-standalone, and then with a Kubernetes that is already running, which
// also accepts the manifests of the overlay.
func TestLong_PagesHoldWithoutKCP(t *testing.T) {
	cluster := must.Get(local.NewKubernetes(t.Context(), t.TempDir()))(t)
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	must.Do(t, cluster.Start(t.Context()))
	kubeconfig := must.Get(cluster.Admin())(t)
	data := must.Get(local.Kubeconfig(kubeconfig))(t)
	p := newPlace(t)
	p.write(t, data, "admin.kubeconfig")
	p.follow(t, "docs/getting-started.md", "Install")
	p.follow(t, "docs/standalone.md", "Try it")
	p.follow(t, "docs/standalone.md", "On a cluster you have")
	shell := p.open(t)
	shell.typed(t, block{commands: "kubectl --kubeconfig admin.kubeconfig apply -k config/deploy/overlays/standalone"}, done)
	if lines, ok := shell.until(t, isDone); !ok {
		t.Fatalf("the API server refuses the overlay:\n%s", strings.Join(lines, "\n"))
	}
}

// write writes files in the place.
func (p place) write(t *testing.T, data []byte, names ...string) {
	t.Helper()
	for _, name := range names {
		file := filepath.Join(p.dir, name)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data, 0o600)))
	}
}
