package allocator

import (
	"context"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// pruneEvery is the pause between two looks for what nobody uses.
const pruneEvery = time.Minute

// prune deletes fences that nobody uses: of the quotas of workspaces that hold nothing,
// and of workspaces without a root pool. Workspaces come and go, and would leave them
// behind. Each is deleted only as it was seen; a fence that is needed is made again.
func (eng *engine) prune(ctx context.Context) {
	unused := map[string]int64{}
	for to, fence := range eng.table.Quotas.Idle(eng.hooks.now()) {
		unused[eng.keys.Quota(to.Class, to.Cluster)] = fence
	}
	for cluster, fence := range eng.table.Rootless() {
		unused[eng.keys.Roots(cluster)] = fence
	}
	for key, revision := range unused {
		if _, err := eng.store.Commit(ctx, store.Cmps(store.At(key, revision)), store.Ops(store.Remove(key)), nil); err != nil {
			return // the next look finds it, too
		}
	}
}
