package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/framework/retry"
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

// ReadAdminConfig is AdminConfig for processes other than the test. kcp makes a new token at each start, and then
// refuses tokens that were read before.
func ReadAdminConfig() (*rest.Config, error) { return here.kcp.Admin() }

// System returns a client of a workspace as kcp itself, to whom no role and no policy refuses anything.
func System(t testing.TB, workspace string) client.WithWatch {
	t.Helper()
	return must.Get(workspaces.NewClient(workspaces.At(SystemConfig(t), workspace)))(t)
}

// SystemConfig returns the access of kcp itself.
func SystemConfig(t testing.TB) *rest.Config {
	t.Helper()
	return must.Get(clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: server(t).Kubeconfig()},
		&clientcmd.ConfigOverrides{CurrentContext: "shard-base"}).ClientConfig())(t)
}

// server returns the kcp of one server that Main has started, and fails the test if the kcp has shards.
func server(t testing.TB) *local.KCP {
	t.Helper()
	kcp, ok := current(t).kcp.(*local.KCP)
	if !ok {
		t.Fatal("this kcp has shards: see KillShard and StartShard")
	}
	return kcp
}

// RestartKCP stops kcp and starts it again over its data. Clients and controllers find it at the same address. No
// other test may run meanwhile.
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

// Store returns a client of the etcd in which kcp keeps its objects. The client outlives restarts of kcp, so its
// watches have no gap.
func Store(t testing.TB) *clientv3.Client {
	t.Helper()
	c := must.Get(server(t).Store())(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// BackupKCP stops kcp, copies its data and starts it again. The returned function replaces kcp's data by the copy, as
// if kcp had been restored from a backup. No other test may run meanwhile.
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

// The shards of a kcp from MainOnShards. The platforms are on RootShard.
const (
	RootShard  = local.RootShard
	OtherShard = local.OtherShard
)

// MainOnShards is Main on a kcp of two shards, with a cache server and a front proxy.
func MainOnShards(m *testing.M) int {
	return mainOn(m, func(ctx context.Context, dir string) (ground, error) { return local.NewShards(ctx, dir) })
}

// TenantOn makes a tenant of the platform, in a workspace below root that is on a shard.
func (p *Platform) TenantOn(t testing.TB, shard string) *Tenant {
	t.Helper()
	path := fmt.Sprintf("root:team-%d", current(t).serial.Add(1))
	must.Do(t, current(t).place(t.Context(), path, shard))
	return p.TenantAt(t, path)
}

// KillShard ends a shard with SIGKILL, until StartShard. The other shard goes on.
func KillShard(t testing.TB, name string) {
	t.Helper()
	must.Do(t, shards(t).KillShard(name))
}

// StartShard starts a shard again over its data, and returns when it is ready.
func StartShard(t testing.TB, name string) {
	t.Helper()
	must.Do(t, shards(t).StartShard(t.Context(), name))
}

// EmptyCacheServer kills the cache server, over which shards tell each other of exports, webhooks and policies, and
// starts it without data. Shards that run do not notice. A shard that starts then knows nothing of the others until
// they start again, too.
func EmptyCacheServer(t testing.TB) {
	t.Helper()
	must.Do(t, shards(t).EmptyCache(t.Context()))
}

// WaitCacheServer waits until the cache server knows the exports, webhooks and policies of RootShard.
func WaitCacheServer(t testing.TB) {
	t.Helper()
	Eventually(t, "the cache server to be filled", shards(t).CacheFilled)
}

func shards(t testing.TB) *local.Shards {
	t.Helper()
	kcp, ok := current(t).kcp.(*local.Shards)
	if !ok {
		t.Fatal("this kcp is one server: write os.Exit(framework.MainOnShards(m)) in TestMain")
	}
	return kcp
}

// leanType is a type of workspaces that bind no export of kcp's own. Binding these is two thirds of kcp's work for a
// workspace; binding our export is next to nothing.
const leanType = "lean"

// place makes a workspace on a shard. Without shards, it does nothing.
func (w *world) place(ctx context.Context, path, shard string) error {
	if _, ok := w.kcp.(*local.Shards); !ok {
		return nil
	}
	return w.makeWorkspace(ctx, path, tenancyv1alpha1.WorkspaceSpec{Location: &tenancyv1alpha1.WorkspaceLocation{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": shard}},
	}})
}

// makeLean makes a lean workspace below root. It has no namespace default, and can have no workspaces below it. With
// shards, makeLean does nothing.
func (w *world) makeLean(ctx context.Context, path string) error {
	if _, ok := w.kcp.(*local.KCP); !ok {
		return nil
	}
	return w.makeWorkspace(ctx, path, tenancyv1alpha1.WorkspaceSpec{
		Type: &tenancyv1alpha1.WorkspaceTypeReference{Name: leanType, Path: "root"},
	})
}

func (w *world) makeWorkspace(ctx context.Context, path string, spec tenancyv1alpha1.WorkspaceSpec) error {
	parent, name := logicalcluster.NewPath(path).Split()
	workspace := &tenancyv1alpha1.Workspace{Spec: spec}
	workspace.Name = name
	c, err := w.adminOf(parent.String())
	if err != nil {
		return err
	}
	return retry.Do(ctx, Patience, "make workspace "+path, func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(c.Create(ctx, workspace.DeepCopy()))
	})
}

// makeLeanType makes the workspace type that makeLean uses.
func (w *world) makeLeanType(ctx context.Context) error {
	if _, ok := w.kcp.(*local.KCP); !ok {
		return nil
	}
	c, err := w.adminOf("root")
	if err != nil {
		return err
	}
	return retry.Do(ctx, Patience, "make a type of workspaces", func(ctx context.Context) error {
		lean := &tenancyv1alpha1.WorkspaceType{}
		lean.Name = leanType
		return client.IgnoreAlreadyExists(c.Create(ctx, lean))
	})
}

// adminOf returns a client of the admin in a workspace.
func (w *world) adminOf(workspace string) (client.Client, error) {
	admin, err := w.kcp.Admin()
	if err != nil {
		return nil, err
	}
	return workspaces.NewClient(workspaces.At(admin, workspace))
}
