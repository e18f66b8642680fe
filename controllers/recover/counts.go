package recover

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

// counts compares the count of changes in the ledger with the count in the status of each pool. It remembers the lost
// pools, whose changes the ledger lacks. Safe for concurrent use.
type counts struct {
	AdopterOptions
	lacks  func(ctx context.Context, id ledger.PoolID, changes int64) (bool, error) // asks the ledger
	losses *losses
	lists  *live.Rounds[[]listed]
}

// misses reports whether the ledger lacks changes that a pool's status shows, and then freezes the pool in the ledger.
// A lost pool stays lost until a pass makes it whole, even if it is registered again before. The freeze is written in
// the ledger, so another process or replica finds the pool lost, too.
func (c *counts) misses(ctx context.Context, id ledger.PoolID, status ipamv1alpha1.IPPoolStatus) (bool, error) {
	pool, known := c.Ledger.Pools().Get(id)
	if known && pool.Frozen {
		c.losses.add(id)
	}
	if c.losses.has(id) || status.AllocatedCIDR == "" {
		return c.losses.has(id), nil
	}
	if known && !c.Ledger.Recovery().Frozen(id) || c.losses.wasRetired(id) {
		return false, nil
	}
	behind, err := c.behind(ctx, id, status.Ledger)
	if err != nil || !behind {
		return false, err
	}
	// After a pool was retired, its IPPool remains until the finalizer is removed, and longer in caches. The pool may have
	// been retired since it was read from memory above, so the ledger is asked last whether it was.
	if retired, err := c.Ledger.Pools().Retired(ctx, id); err != nil || retired {
		return false, err
	}
	// A derived pool that was made again meanwhile has the ID of the former pool, and the status may be the former
	// pool's.
	now, there := c.Ledger.Pools().Get(id)
	again := there != known || !now.RegisteredAt.Equal(pool.RegisteredAt)
	if !again {
		err = c.Ledger.Recovery().Freeze(ctx, id, pool.RegisteredAt)
		again = errors.Is(err, ledger.ErrChanged)
	}
	if again {
		return c.misses(ctx, id, status)
	}
	c.losses.add(id)
	return true, err
}

// behind reports whether the ledger lacks changes that a pool's status shows, or whether the status names another
// ledger. It writes nothing.
func (c *counts) behind(ctx context.Context, id ledger.PoolID, had *ipamv1alpha1.PoolLedger) (bool, error) {
	if had == nil { // the status is of a version that did not count
		had = &ipamv1alpha1.PoolLedger{ID: c.Ledger.Recovery().LedgerID()}
	}
	changes := had.Changes
	if p, ok := c.Ledger.Pools().Get(id); ok {
		changes -= catalog.Changes(p, 0)
	}
	behind, err := c.lacks(ctx, id, changes)
	return behind || had.ID != c.Ledger.Recovery().LedgerID(), err
}

// Complete reports whether the ledger has every pool that the object, a claim or an IPAllocation, may name, and none of
// these pools has lost changes. If so, the ledger has each block of these pools that was ever published. A pass may
// have adopted the block only during the call.
//
// Complete lists the pools live, and fails if an endpoint does not answer. It compares by itself the pools that were
// not compared yet, because otherwise their owner could delay the answer for ever. Concurrent callers share one list.
// Safe for concurrent use.
func (c *counts) Complete(ctx context.Context, in ledger.ClusterName, object client.Object) (bool, error) {
	shown, unseen := readRecord(in, object), map[ledger.PoolID]bool{}
	if shown.fault != nil || !shown.published() {
		return true, nil // no pool can have given what the object shows
	}
	for p := range c.Ledger.Pools().All() { // from memory, before a list is paid for
		switch {
		case !c.mayBe(shown, listed{owner: p.Cluster, name: p.Name, cidr: p.CIDR}):
		case ledger.IsAddressSpace(p.ID): // compared as a part of its pool
		case p.Frozen || c.losses.has(p.ID):
			return false, nil
		case c.waits(p):
			unseen[p.ID] = true // not compared yet; the list may show its IPPool
		}
	}
	all, err := c.lists.Get(ctx)
	if err != nil {
		return false, err
	}
	for _, p := range all {
		if !c.mayBe(shown, p) {
			continue
		}
		delete(unseen, p.id)
		if whole, err := c.has(ctx, p); err != nil || !whole {
			return false, err
		}
	}
	return len(unseen) == 0, nil
}

// listTime limits the list of all pools.
const listTime = 5 * time.Minute

// listed has the facts of a listed IPPool that Complete needs.
type listed struct {
	owner  ledger.ClusterName
	name   string
	cidr   netip.Prefix
	id     ledger.PoolID
	had    *ipamv1alpha1.PoolLedger
	leaves bool
}

// list lists the IPPools that show a CIDR, in all workspaces. Concurrent calls of Complete share one list, because a
// user can send many DELETEs of claims that show a block or range which the ledger lacks.
func (c *counts) list(ctx context.Context) ([]listed, error) {
	var all []listed
	err := c.Record.Each(ctx, &ipamv1alpha1.IPPoolList{}, func(owner ledger.ClusterName, object client.Object) {
		pool := object.(*ipamv1alpha1.IPPool)
		cidr, err := netip.ParsePrefix(pool.Status.AllocatedCIDR)
		if id, shown := catalog.ShownID(pool, owner, c.Directory.Platform().Cluster); shown && err == nil {
			all = append(all, listed{owner, pool.Name, cidr, id, pool.Status.Ledger, retired(pool)})
		}
	})
	return all, err
}

// mayBe reports whether a pool may be the one that a claim or IPAllocation names. A path other than the platform's may
// stand for any workspace except the object's own, because the path of a workspace can change. A pool that the object
// cannot name does not count: otherwise a tenant could keep a forged block by a frozen pool of its own.
func (c *counts) mayBe(shown record, p listed) bool {
	own, of, platform := p.owner == shown.request.Holder.Cluster, shown.pool.ProjectRef, c.Directory.Platform()
	switch {
	case p.name != shown.pool.Name, !contains(p.cidr, shown.request.Exact):
		return false
	case of == nil:
		return own
	default:
		return !own && (of.Name != platform.Path || p.owner == platform.Cluster)
	}
}

// waits reports whether an open pool was not compared with its status yet. A draining pool does not wait: it gets no
// more blocks, and its IPPool may be gone.
func (c *counts) waits(p ledger.Pool) bool {
	return p.State == ledger.PoolOpen && c.Ledger.Recovery().Frozen(p.ID)
}

// has reports whether the ledger has every change that a pool's status shows. A pool that the ledger does not know was
// retired if its IPPool is being deleted without our finalizer: the controller removes the finalizer only after it has
// retired the pool. The owner's finalizers can keep that IPPool for ever, and after a restart no process remembers the
// retirement.
func (c *counts) has(ctx context.Context, shown listed) (bool, error) {
	p, known := c.Ledger.Pools().Get(shown.id)
	switch {
	case c.losses.has(shown.id), p.Frozen:
		return false, nil
	case known && !c.waits(p), !known && shown.leaves:
		return true, nil
	}
	if behind, err := c.behind(ctx, shown.id, shown.had); err != nil || !behind {
		return err == nil, err
	}
	return c.Ledger.Pools().Retired(ctx, shown.id)
}

func retired(pool *ipamv1alpha1.IPPool) bool {
	return !pool.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(pool, ipamv1alpha1.FinalizerPool)
}

// Compare compares the ledger with the cached status of every pool in the space of a pool, and trusts each pool whose
// changes the ledger has. It reports whether the ledger has the changes of all of them. It serves CREATEs that arrive
// before the leader has compared the pools. Compare writes nothing: the leader freezes the lost pools. Safe for
// concurrent use.
//
// A stale cache may show an older status, with fewer changes. But the caches were filled after the ledger was opened,
// as on the leader, so they show at least what was published before that. If the ledger is replaced later, the
// Allocator notices that by itself.
func (c *counts) Compare(ctx context.Context, id ledger.PoolID) (bool, error) {
	of, known := c.Ledger.Pools().Get(id)
	if !known {
		return false, nil
	}
	all := true
	for p := range c.Ledger.Pools().All() {
		if p.Space != of.Space || !c.waits(p) {
			continue
		}
		whole, err := c.compare(ctx, p)
		if err != nil {
			return false, fmt.Errorf("compare pool %s of %s with its status: %w", p.Name, p.Cluster, err)
		}
		all = all && whole
	}
	return all, nil
}

// compare trusts a pool if the ledger has every change that the status of its IPPool shows, and reports whether it did
// so.
func (c *counts) compare(ctx context.Context, p ledger.Pool) (bool, error) {
	if p.Frozen {
		return false, nil
	}
	if ledger.IsAddressSpace(p.ID) { // its changes count for its pool, which has the IPPool
		var known bool
		if p, known = c.Ledger.Pools().Get(p.Derived.Of); !known {
			return false, nil
		}
	}
	workspace, err := c.Clusters.GetCluster(ctx, c.Directory.Engaged(p.Cluster))
	if err != nil {
		return false, err
	}
	pool := &ipamv1alpha1.IPPool{}
	if err := workspace.GetCache().Get(ctx, client.ObjectKey{Name: p.Name}, pool); err != nil {
		return false, err
	}
	if id, ok := catalog.IDOf(c.Ledger.Pools(), pool, p.Cluster); !ok || id != p.ID || pool.Status.AllocatedCIDR == "" ||
		pool.Status.ObservedGeneration != pool.Generation {
		return false, nil // the leader first has to apply its exclusions, which may have changed
	}
	behind, err := c.behind(ctx, p.ID, pool.Status.Ledger)
	if err != nil || behind {
		return false, err
	}
	c.Ledger.Recovery().Trust(p.ID)
	return true, nil
}
