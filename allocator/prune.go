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
func (a *Allocator) prune(ctx context.Context) {
	unused := map[string]int64{}
	for to, fence := range a.table.Quotas.Idle(a.hooks.now()) {
		unused[a.keys.Quota(to.Class, to.Cluster)] = fence
	}
	for cluster, fence := range a.table.Rootless() {
		unused[a.keys.Roots(cluster)] = fence
	}
	for key, revision := range unused {
		if _, err := a.store.Commit(ctx, store.Cmps(store.At(key, revision)), store.Ops(store.Remove(key)), nil); err != nil {
			return // the next look finds it, too
		}
	}
}
