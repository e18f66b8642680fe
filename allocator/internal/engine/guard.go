package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

const (
	// probeEvery is the pause between two looks whether the ledger is still the same one. A
	// restored etcd tells nothing by itself: a watch simply waits for revisions to come.
	probeEvery = time.Second
	// pruneEvery is the pause between two looks for what nobody uses.
	pruneEvery = time.Minute
)

// Guard looks whether the ledger is still the one that is in memory, and removes from it what
// nobody uses.
type Guard struct{ *Engine }

// run does so until the Allocator is closed.
func (g Guard) run() {
	probe, prune := time.NewTicker(g.Hooks.Probe), time.NewTicker(pruneEvery)
	defer probe.Stop()
	defer prune.Stop()
	for {
		select {
		case <-probe.C:
			g.probe(g.Ctx)
		case <-prune.C:
			g.Prune(g.Ctx)
		case <-g.Health.Failed:
			return
		case <-g.Ctx.Done():
			return
		}
	}
}

// probe compares the ledger with what was seen of it. An etcd that does not answer says
// nothing about that.
func (g Guard) probe(ctx context.Context) {
	seen := g.Watched.Get()
	id, ok, revision, err := g.store.PresentID(ctx)
	if err != nil && !ledger.Unreadable(err) {
		return
	}
	g.Health.compare(seen, revision)
	switch {
	case err != nil: // a newer program may have written it
	case !ok:
		g.Health.replaced("its ID is gone")
	case id != g.ID:
		g.Health.replaced(fmt.Sprintf("its ID is %s and was %s", id, g.ID))
	}
}

// Prune deletes fences that nobody uses: of the quotas of workspaces that hold nothing,
// and of workspaces without a root pool. Workspaces come and go, and would leave them
// behind. Each is deleted only as it was seen; a fence that is needed is made again.
func (g Guard) Prune(ctx context.Context) {
	unused := map[string]int64{}
	for to, fence := range g.Table.Quotas.Idle(g.Hooks.Now()) {
		unused[g.Keys.Quota(to.Class, to.Cluster)] = fence
	}
	for cluster, fence := range g.Table.Rootless() {
		unused[g.Keys.Roots(cluster)] = fence
	}
	for key, revision := range unused {
		if _, err := g.store.Commit(ctx, store.Cmps(store.At(key, revision)), store.Ops(store.Remove(key)), nil); err != nil {
			return // the next look finds it, too
		}
	}
}
