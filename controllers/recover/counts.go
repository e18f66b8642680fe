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

// counts compares the changes that the ledger counts with those that the status of each pool shows, and remembers the
// pools that it has found to be lost. Safe for concurrent use.
type counts struct {
	AdopterOptions
	lacks  func(ctx context.Context, id ledger.PoolID, changes int64) (bool, error) // asks the ledger
	losses *losses
	lists  *live.Rounds[[]listed]
}

// misses reports whether the ledger misses changes that a pool's status speaks of. A pool that was
// found lost stays so until it is whole again, even if the ledger has it already.
// That is written in the ledger: another process, or another replica, goes on from there.
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
	// The record shows a pool until its finalizer is off, and caches show it longer. It may have been retired
	// since it was found in memory, so this is asked last.
	if retired, err := c.Ledger.Pools().Retired(ctx, id); err != nil || retired {
		return false, err
	}
	// A derived pool that was made again meanwhile has the ID of the former one, which the status may speak of.
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

// behind reports whether the ledger lacks changes that a pool's status speaks of, or is another
// one. It changes nothing.
func (c *counts) behind(ctx context.Context, id ledger.PoolID, had *ipamv1alpha1.PoolLedger) (bool, error) {
	if had == nil { // written by a version that did not count
		had = &ipamv1alpha1.PoolLedger{ID: c.Ledger.Recovery().LedgerID()}
	}
	changes := had.Changes
	if p, ok := c.Ledger.Pools().Get(id); ok {
		changes -= catalog.Changes(p, 0)
	}
	behind, err := c.lacks(ctx, id, changes)
	return behind || had.ID != c.Ledger.Recovery().LedgerID(), err
}

// Complete reports whether the ledger has every pool that the claim's status may name, and none of these pools has lost
// changes. Then the ledger has each block of theirs that was ever published, perhaps adopted only during the call.
// Complete lists the pools live, and fails if an endpoint does not answer. It compares the pools that were not compared
// yet, because their owner could delay that for ever. Concurrent callers share one list. Safe for concurrent use.
func (c *counts) Complete(ctx context.Context, in ledger.ClusterName, claim *ipamv1alpha1.IPClaim) (bool, error) {
	shown, unseen := readRecord(in, claim), map[ledger.PoolID]bool{}
	if shown.fault != nil || !shown.published() {
		return true, nil // no pool can have given it that
	}
	for p := range c.Ledger.Pools().All() { // which costs no list
		switch {
		case !c.mayBe(shown, listed{owner: p.Cluster, name: p.Name, cidr: p.CIDR}):
		case ledger.IsAddressSpace(p.ID): // which is compared with its pool
		case p.Frozen || c.losses.has(p.ID):
			return false, nil
		case c.waits(p):
			unseen[p.ID] = true // not compared yet, as long as no workspace shows it
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

// listed is a pool of a list of all.
type listed struct {
	owner  ledger.ClusterName
	name   string
	cidr   netip.Prefix
	id     ledger.PoolID
	had    *ipamv1alpha1.PoolLedger
	leaves bool
}

// list lists all pools that show a CIDR. Users may have many claims that show a range which the ledger does not have,
// and send many DELETEs of them: these share a list.
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

// mayBe reports whether a pool may be the one that a claim shows. By a path that is not the platform's, any other
// workspace may have been meant, as its owner may have changed it since. Any other pool says nothing of the claim, and
// a tenant cannot keep a forged block by a pool of its own that is frozen.
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

// waits reports whether a pool of the ledger was not compared with its status yet. One that drains has got no block
// since, and nothing may be left to compare it with.
func (c *counts) waits(p ledger.Pool) bool {
	return p.State == ledger.PoolOpen && c.Ledger.Recovery().Frozen(p.ID)
}

// has reports whether the ledger has all that a pool's status speaks of. Our finalizer is taken off a pool that goes
// when the ledger has retired it, which only the process remembers that has seen it. Others may keep the pool there for
// as long as they like.
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

// Compare compares the ledger with the status of every pool in the space of a pool, and trusts the pools that
// have lost nothing. It reports whether no pool has lost anything. It is for CREATEs that come before the
// leader has compared them. It writes nothing: the pass of the leader reports the losses. Safe for concurrent use.
//
// A cache that lags shows an older status, which speaks of fewer changes. The caches were filled
// after the ledger was opened, as those of the leader are, and a ledger that is exchanged later is
// noticed by the Allocator itself.
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
	if ledger.IsAddressSpace(p.ID) { // its changes count with those of its pool, which alone is published
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
		return false, nil // its exclusions may have changed, which the leader has to follow first
	}
	behind, err := c.behind(ctx, p.ID, pool.Status.Ledger)
	if err != nil || behind {
		return false, err
	}
	c.Ledger.Recovery().Trust(p.ID)
	return true, nil
}
