package framework

import (
	"errors"
	"os"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/workspaces"
)

// Admin returns a client of a workspace as kcp's own admin.
func Admin(t testing.TB, workspace string) client.WithWatch {
	t.Helper()
	c, err := workspaces.NewClient(workspaces.At(AdminConfig(t), workspace))
	if err != nil {
		t.Fatalf("workspaces.NewClient: %v", err)
	}
	return c
}

// AdminConfig returns the access of kcp's own admin, to the workspace root.
func AdminConfig(t testing.TB) *rest.Config {
	t.Helper()
	current(t)
	cfg, err := ReadAdminConfig()
	if err != nil {
		t.Fatalf("ReadAdminConfig: %v", err)
	}
	return cfg
}

// ReadAdminConfig is AdminConfig for other processes than the test. kcp makes a new token at each
// start, and one that was read before is refused then.
func ReadAdminConfig() (*rest.Config, error) { return here.kcp.Admin() }

// System returns a client of a workspace as kcp itself, whom no role and no policy
// refuses anything.
func System(t testing.TB, workspace string) client.WithWatch {
	t.Helper()
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: server(t).Kubeconfig()},
		&clientcmd.ConfigOverrides{CurrentContext: "shard-base"}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	c, err := workspaces.NewClient(workspaces.At(cfg, workspace))
	if err != nil {
		t.Fatalf("workspaces.NewClient: %v", err)
	}
	return c
}

// server returns the one server of kcp, in a package that has it from Main.
func server(t testing.TB) *local.KCP {
	t.Helper()
	kcp, ok := current(t).kcp.(*local.KCP)
	if !ok {
		t.Fatal("this kcp has shards: see KillShard and StartShard")
	}
	return kcp
}

// RestartKCP stops kcp and starts it again over its data. Clients and controllers
// that were connected find it at the same address. No other test may run meanwhile.
func RestartKCP(t testing.TB) {
	t.Helper()
	kcp := server(t)
	if err := kcp.Stop(); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	if err := kcp.Start(t.Context()); err != nil {
		t.Fatalf("Start: %v", err)
	}
}

// KillKCP ends kcp with SIGKILL, until StartKCP. No other test may run meanwhile.
func KillKCP(t testing.TB) {
	t.Helper()
	if err := server(t).Kill(); err != nil {
		t.Fatalf("Kill: %v", err)
	}
}

// StartKCP starts kcp again over its data, and returns when it is ready.
func StartKCP(t testing.TB) {
	t.Helper()
	if err := server(t).Start(t.Context()); err != nil {
		t.Fatalf("Start: %v", err)
	}
}

// Store returns a client of the etcd in which kcp keeps its objects. It outlives kcp's
// restarts, so that what it watches has no gap.
func Store(t testing.TB) *clientv3.Client {
	t.Helper()
	c, err := server(t).Store()
	if err != nil {
		t.Fatalf("Store: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// BackupKCP stops kcp, copies what it stores and starts it again. The function that it
// returns puts the copy in the place of what is stored then, as if kcp had been restored
// from a backup. No other test may run meanwhile.
func BackupKCP(t testing.TB) (restore func()) {
	t.Helper()
	kcp, backup := server(t), t.TempDir()
	exchange := func(change func() error) {
		t.Helper()
		if err := kcp.Stop(); err != nil {
			t.Fatalf("Stop: %v", err)
		}
		if err := errors.Join(change(), kcp.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	exchange(func() error { return os.CopyFS(backup, os.DirFS(kcp.StoreDir())) })
	return func() {
		t.Helper()
		exchange(func() error {
			if err := os.RemoveAll(kcp.StoreDir()); err != nil {
				return err
			}
			return os.CopyFS(kcp.StoreDir(), os.DirFS(backup))
		})
	}
}
