package pool

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// gateway says what is wrong with the gateway of a pool, now that its block is known; empty if nothing is. A
// gateway that was moved to an address in use stays with its holder, who is named if it is of the pool's own
// workspace.
func (p *pass) gateway(ctx context.Context, entered ledger.Pool, capacity ledger.Capacity) (string, error) {
	router, err := p.pool.Spec.Router(entered.CIDR)
	if err != nil {
		return err.Error(), nil //nolint:nilerr // it is said in the status
	}
	if capacity.Stranded == 0 || !entered.CIDR.Contains(router) {
		return "", nil
	}
	blocks, err := p.ledger.Overlapping(ctx, p.id, netip.PrefixFrom(router, router.BitLen()))
	if err != nil && !ledger.Unreadable(err) {
		return "", fmt.Errorf("find the holder of the gateway of pool %s: %w", p.pool.Name, err)
	}
	for _, b := range blocks {
		if b.Pool != p.id || b.State == ledger.Cooling { // the block of a child pool is of its parent
			continue
		}
		holder := "another workspace"
		if b.Holder.Cluster == p.owner.Cluster {
			holder = holderName(b)
		}
		return fmt.Sprintf("spec.gateway %s lies in %s, which %s holds: release that, or write another gateway", router, b.Prefix, holder), nil
	}
	return "", nil
}
