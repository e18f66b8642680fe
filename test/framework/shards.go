package framework

import (
	"context"
	"fmt"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/must"
)

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

// KillShard ends a shard with SIGKILL, until StartShard. What is on the other one goes on.
func KillShard(t testing.TB, name string) {
	t.Helper()
	must.Do(t, shards(t).KillShard(name))
}

// StartShard starts a shard again over its data, and returns when it is ready.
func StartShard(t testing.TB, name string) {
	t.Helper()
	must.Do(t, shards(t).StartShard(t.Context(), name))
}

// EmptyCacheServer kills the cache server, over which shards tell each other of exports, webhooks and policies, and starts it over
// without data. Shards that run do not notice. One that starts again knows nothing of the others, until they start again, too.
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
