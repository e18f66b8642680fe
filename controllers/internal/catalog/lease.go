package catalog

import (
	"context"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Leases says for how long blocks are retained. All fields are required. It is safe for
// concurrent use.
type Leases struct {
	Catalog *Catalog
	Pools   Pools
}

// Of returns the lease of a block that is retained now: spec.retentionLease of its class, bounded by
// spec.maxRetentionLease of its pool, as they are now. 0: it has none. It is an error if the
// pool's workspace is bound and its cache cannot be read yet.
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
