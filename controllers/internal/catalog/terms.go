package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
)

// Pools finds the ledger's pools.
type Pools interface {
	Get(id ledger.PoolID) (ledger.Pool, bool)
}

// terms returns the specs of a block's class and pool, as they are now; each is empty if the object does not exist. If
// the pool's workspace may be bound, and the cache of that workspace cannot be read, terms fails: giving a block back
// can wait, and must not be decided without the block's pool. Of an object that cannot be decoded whole, terms returns
// the readable fields.
func (c *Catalog) terms(
	ctx context.Context, pools Pools, b ledger.Block,
) (class ipamv1alpha1.IPClassSpec, pool ipamv1alpha1.IPPoolSpec, err error) {
	view := c.View(ctx)
	if b.Class != "" {
		if found, ok := view.Class(b.Class); ok || decode.Unreadable(found) != nil {
			class = found.Spec
		}
	}
	known, ok := pools.Get(b.Pool)
	if !ok {
		return class, pool, view.Err()
	}
	if of, is := ledger.AddressSpaceOf(known.ID); is { // an address space has the terms of its pool
		known.ID = of
	}
	owner := c.Directory.Workspace(known.Cluster)
	if _, engaged := view.reader(owner); !engaged && c.mayServe(known) {
		view.fail(fmt.Errorf("the workspace of pool %s is not served yet", known.Name))
	}
	if found, ok := view.Pool(owner, known.Name); ok || decode.Unreadable(found) != nil {
		if id, ours := IDOf(pools, found, known.Cluster); ours && id == known.ID {
			pool = found.Spec
		}
	}
	return class, pool, view.Err()
}

// mayServe reports whether the workspace of a pool may be bound. A pool usually drains because its workspace was
// unbound. So if the pool drains, its workspace counts as bound only while an endpoint shows the binding.
func (c *Catalog) mayServe(p ledger.Pool) bool {
	return c.Directory.Bound(p.Cluster) || p.State != ledger.PoolDraining && c.MayBeBound(p.Cluster)
}

// Reclaims returns the policy for the block of a claim that is deleted: the claim's own policy, or else the policy of
// the block's class, as it is now. It returns an empty policy if that class does not exist any more.
func (c *Catalog) Reclaims(
	ctx context.Context, own ipamv1alpha1.ReclaimPolicy, class string,
) (ledger.ReclaimPolicy, error) {
	if own != "" || class == "" {
		return cmp.Or(ledger.ReclaimPolicy(own), ledger.Delete), nil
	}
	view := c.View(ctx)
	found, ok := view.Class(class)
	if !ok && decode.Unreadable(found) == nil {
		return "", view.Err()
	}
	return cmp.Or(ledger.ReclaimPolicy(found.Spec.ReclaimPolicy), ledger.Delete), nil
}

// Cooldowns tells the ledger how long a block cools if it is freed now. The zero value fails until Serve is called. It
// is safe for concurrent use.
type Cooldowns struct {
	source atomic.Pointer[cooldowns]
}

type cooldowns struct {
	catalog *Catalog
	pools   Pools
}

// Serve sets the catalog, from which classes and pools are read, and the pools of the ledger, which say in which
// workspace each pool is.
func (c *Cooldowns) Serve(catalog *Catalog, pools Pools) {
	c.source.Store(&cooldowns{catalog: catalog, pools: pools})
}

// Of returns the longer spec.releaseCooldown of the block's pool and class, as they are now. A pool or class that does
// not exist counts as zero. If the pool's workspace may be bound, and the cache of that workspace cannot be read, Of
// fails: releasing late is safer than allocating early.
func (c *Cooldowns) Of(b ledger.Block) (time.Duration, error) {
	source := c.source.Load()
	if source == nil {
		return 0, errors.New("the catalog is not read yet")
	}
	class, pool, err := source.catalog.terms(context.Background(), source.pools, b)
	if err != nil {
		return 0, err
	}
	return max(class.ReleaseCooldown.Value(), pool.ReleaseCooldown.Value()), nil
}

// Leases says for how long blocks are retained. All fields are required. It is safe for
// concurrent use.
type Leases struct {
	Catalog *Catalog
	Pools   Pools
}

// Of returns for how long a block stays retained if it is retained now: spec.retentionLease of its class, bounded by
// spec.maxRetentionLease of its pool, both as they are now. 0: the block has no lease. If the pool's workspace may be
// bound and the cache of that workspace cannot be read, Of fails.
func (l Leases) Of(ctx context.Context, b ledger.Block) (time.Duration, error) {
	class, pool, err := l.Catalog.terms(ctx, l.Pools, b)
	if err != nil {
		return 0, err
	}
	lease, bound := class.RetentionLease.Value(), pool.MaxRetentionLease.Value()
	if lease == 0 || bound > 0 && bound < lease {
		return bound, nil
	}
	return lease, nil
}
