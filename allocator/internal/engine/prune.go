package engine

import (
	"context"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// pruneEvery is the pause between two looks for what nobody uses.
const pruneEvery = time.Minute

// Prune deletes fences that nobody uses: of the quotas of workspaces that hold nothing,
// and of workspaces without a root pool. Workspaces come and go, and would leave them
// behind. Each is deleted only as it was seen; a fence that is needed is made again.
func (eng *Engine) Prune(ctx context.Context) {
	unused := map[string]int64{}
	for to, fence := range eng.Table.Quotas.Idle(eng.Hooks.Now()) {
		unused[eng.Keys.Quota(to.Class, to.Cluster)] = fence
	}
	for cluster, fence := range eng.Table.Rootless() {
		unused[eng.Keys.Roots(cluster)] = fence
	}
	for key, revision := range unused {
		if _, err := eng.store.Commit(ctx, store.Cmps(store.At(key, revision)), store.Ops(store.Remove(key)), nil); err != nil {
			return // the next look finds it, too
		}
	}
}
