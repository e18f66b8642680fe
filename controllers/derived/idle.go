package derived

import (
	"context"
	"maps"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
)

// sweep queues the pools for which something is due: that are closed for too long, or are idle for too long, or have no
// IPPool. All of it is in memory.
func (c *Controller) sweep(ctx context.Context) {
	there := map[ledger.PoolID]bool{}
	for p := range c.Ranges.All() {
		if ledger.IsAddressSpace(p.ID) {
			continue // it goes with its last block
		}
		there[p.ID] = true
		c.watch(p)
		if c.due(ctx, p) {
			c.queue.Add(request{p.ID, p.Cluster, p.Name})
		}
	}
	c.forget()
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.idle, func(id ledger.PoolID, _ idleness) bool { return !there[id] })
}

func (c *Controller) due(ctx context.Context, p ledger.Pool) bool {
	if p.Closed() {
		return p.Derived.Holder.Claim == "" || c.Clock.Now().After(p.Closing.Until)
	}
	return c.old(p) || c.Bound(p.Cluster) && !c.shown(ctx, p)
}

// shown reports whether the cache shows the IPPool of a pool.
func (c *Controller) shown(ctx context.Context, p ledger.Pool) bool {
	cl, err := c.Catalog.Clusters.GetCluster(ctx, c.Catalog.Directory.Engaged(p.Cluster))
	return err != nil || c.shows(ctx, cl, p) == ours // without a cluster nothing can be made there now
}

// watch notes since when a pool is idle. A pool whose space has changed since the last look was used in between.
func (c *Controller) watch(p ledger.Pool) {
	idle, changes := catalog.Idle(c.Ledger.Pools, c.Ranges, p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, ok := c.idle[p.ID]; !idle {
		delete(c.idle, p.ID)
	} else if !ok || before.changes != changes {
		c.idle[p.ID] = idleness{c.Clock.Now(), changes}
	}
}

// old reports whether a pool is idle for so long that it goes. A pool whose range claim has gone does at once, as it
// would have with the claim's DELETE: that is not refused where the namespace is deleted, and what lived inside was
// still there.
func (c *Controller) old(p ledger.Pool) bool {
	c.mu.Lock()
	seen, ok := c.idle[p.ID]
	c.mu.Unlock()
	switch idle, _ := catalog.Idle(c.Ledger.Pools, c.Ranges, p); {
	case !idle:
		return false
	case c.wasDropped(p):
		return true
	case !ok:
		return false
	}
	after, never := c.stays(p)
	return !never && c.Clock.Since(seen.since) >= after
}

// stays returns how long a pool stays that is idle. A workspace that is bound no more is not kept waiting.
func (c *Controller) stays(p ledger.Pool) (after time.Duration, never bool) {
	if of := p.Derived.Workspace.Cluster(); of != "" && (c.Departed(of) || !c.Bound(of) && !c.Catalog.MayBeBound(of)) {
		return min(max(c.Idle, time.Nanosecond), leftIdle), false
	}
	return c.Idle, c.Idle == 0
}
