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
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// Admin returns a client of a workspace as kcp's own admin.
func Admin(t testing.TB, workspace string) client.WithWatch {
	t.Helper()
	return must.Get(workspaces.NewClient(workspaces.At(AdminConfig(t), workspace)))(t)
}

// AdminConfig returns the access of kcp's own admin, to the workspace root.
func AdminConfig(t testing.TB) *rest.Config {
	t.Helper()
	current(t)
	return must.Get(ReadAdminConfig())(t)
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
	return must.Get(workspaces.NewClient(workspaces.At(cfg, workspace)))(t)
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
	must.Do(t, kcp.Stop())
	must.Do(t, kcp.Start(t.Context()))
}

// KillKCP ends kcp with SIGKILL, until StartKCP. No other test may run meanwhile.
func KillKCP(t testing.TB) {
	t.Helper()
	must.Do(t, server(t).Kill())
}

// StartKCP starts kcp again over its data, and returns when it is ready.
func StartKCP(t testing.TB) {
	t.Helper()
	must.Do(t, server(t).Start(t.Context()))
}

// Store returns a client of the etcd in which kcp keeps its objects. It outlives kcp's
// restarts, so that what it watches has no gap.
func Store(t testing.TB) *clientv3.Client {
	t.Helper()
	c := must.Get(server(t).Store())(t)
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
		must.Do(t, kcp.Stop())
		must.Do(t, errors.Join(change(), kcp.Start(t.Context())))
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
