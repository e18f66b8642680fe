package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

const (
	// probeEvery is the pause between two checks that the ledger is still the same. An etcd that
	// was restored does not say so: a watch just waits for the next revision.
	probeEvery = time.Second
	// pruneEvery is the pause between two searches for unused keys.
	pruneEvery = time.Minute
)

// Guard checks that the ledger is still the one that is in memory, and deletes unused keys from
// it.
type Guard struct{ *Engine }

// run checks and deletes until the Allocator is closed.
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

// probe compares the ledger with memory. If etcd does not answer, nothing follows from that. After a
// transaction has failed it tries another one, since an Allocator that does not lead may have none to send.
func (g Guard) probe(ctx context.Context) {
	seen := g.Watched.Get()
	id, ok, revision, err := g.store.PresentID(ctx)
	if err != nil && !ledger.Unreadable(err) {
		return
	}
	g.Health.compare(seen, revision)
	if g.Health.commits() != nil && g.store.CheckWritable(ctx) == nil {
		g.Health.setCommit(nil)
	}
	switch {
	case err != nil: // a newer program may have written it
	case !ok:
		g.Health.replaced("its ID is gone")
	case id != g.ID:
		g.Health.replaced(fmt.Sprintf("its ID is %s and was %s", id, g.ID))
	}
}

// Prune deletes unused fences: those of the quotas of workspaces that hold nothing, and those
// of workspaces without a root pool. Else each workspace that goes would leave some behind. A
// fence is deleted only if it was not put meanwhile, and is made again when it is needed.
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
			return // the next search finds it, too
		}
	}
}

// Fence makes a fence, unless it is there, and waits until memory has it.
func (eng *Engine) Fence(ctx context.Context, key string) error {
	if err := eng.Health.Err(); err != nil {
		return err
	}
	resp, err := eng.store.Commit(ctx, store.Cmps(store.Absent(key)), store.Ops(store.Put(key, store.EncodeFence())), store.Ops(store.Get(key)))
	if err != nil {
		return err
	}
	revision := resp.Header.Revision
	if kv := store.Results(resp.Responses).Found(0); !resp.Succeeded && kv != nil {
		revision = kv.ModRevision
	}
	return eng.Watched.Await(ctx, revision)
}
