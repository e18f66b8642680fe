package catalog

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
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

// Serve names the catalog to ask, and the ledger that knows whose each pool is.
func (c *Cooldowns) Serve(catalog *Catalog, pools Pools) {
	c.source.Store(&cooldowns{catalog: catalog, pools: pools})
}

// Of returns the longer of spec.releaseCooldown of the block's pool and of its class, as they are
// now. What does not exist has none. It is an error if the pool's workspace is bound and its
// cache cannot be read yet: releasing late is safer than allocating early.
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
