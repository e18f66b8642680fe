package allocator

import (
	"context"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// secure makes sure that there is a fence for the limit of a request's class, if it has one,
// and that memory has all that was bound before. From then on every bind by the class puts
// the fence.
func (a *Allocator) secure(ctx context.Context, r ledger.Request) error {
	if !space.ClassLimited(r) {
		return nil
	}
	to := space.ClassAccount(r)
	if a.table.Quotas.Fence(to) > 0 {
		return nil
	}
	return a.engine.Fence(ctx, a.keys.Quota(to.Class, to.Cluster))
}
