package catalog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
)

// Cooldowns tells the ledger for how long a block cools that is freed now. The zero value
// knows no catalog yet. It is safe for concurrent use.
type Cooldowns struct {
	source atomic.Pointer[cooldowns]
}

type cooldowns struct {
	catalog *Catalog
	pools   Pools
}

// Pools finds the ledger's pools.
type Pools interface {
	Pool(id allocator.PoolID) (allocator.Pool, bool)
}

// Serve names the catalog to ask, and the ledger that knows whose each pool is.
func (c *Cooldowns) Serve(catalog *Catalog, pools Pools) {
	c.source.Store(&cooldowns{catalog: catalog, pools: pools})
}

// Of is the longer of spec.releaseCooldown of the block's pool and of its class, as they are
// now. What does not exist has none. It is an error if the pool's workspace is bound and its
// cache cannot be read yet: releasing late is safer than allocating early.
func (c *Cooldowns) Of(b allocator.Block) (time.Duration, error) {
	source := c.source.Load()
	if source == nil {
		return 0, errors.New("the catalog is not read yet")
	}
	return source.of(b)
}

func (c *cooldowns) of(b allocator.Block) (longest time.Duration, err error) {
	view := c.catalog.View(context.Background())
	if b.Class != "" {
		if class, ok := view.Class(b.Class); ok {
			longest = class.Spec.ReleaseCooldown.Value()
		}
	}
	known, ok := c.pools.Pool(b.Pool)
	if !ok {
		return longest, view.Err()
	}
	owner := c.catalog.Directory.Workspace(known.Cluster)
	if _, engaged := view.reader(owner); !engaged && c.catalog.Directory.Bound(known.Cluster) && view.Err() == nil {
		return 0, fmt.Errorf("the workspace of pool %s is not served yet", known.Name)
	}
	if pool, ok := view.Pool(owner, known.Name); ok && allocator.PoolID(pool.UID) == known.ID {
		longest = max(longest, pool.Spec.ReleaseCooldown.Value())
	}
	return longest, view.Err()
}
