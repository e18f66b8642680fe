package pool

import (
	"context"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
)

// derived updates the status of an IPPool whose spec says that the system has made the pool. Only the ledger makes such
// pools: derived enters or retires none, and adds no finalizer.
func (p *pass) derived(ctx context.Context) error {
	if !p.pool.DeletionTimestamp.IsZero() || p.odd != nil {
		return nil //nolint:nilerr // What cannot be read stays as it is.
	}
	id, shown := catalog.ShownID(p.pool, p.owner.Cluster, p.Directory.Platform().Cluster)
	if p.id != "" {
		id = p.id
	}
	if p.id != "" || shown {
		if whole, err := p.Adoption.Whole(ctx, id, p.pool.Status); err != nil {
			return p.reporter().fail(ctx, err)
		} else if !whole {
			return p.reporter().freeze(ctx, errLost)
		}
	}
	if p.id == "" {
		p.reporter().refuse(ctx, &outcome.Refusal{
			Reason: ipamv1alpha1.ReasonPoolNotFound,
			Message: "the ledger has no pool of this name, class and scope: spec.classRef is given by the system; " +
				"delete this pool",
		})
		return nil
	}
	p.Ledger.Recovery.Trust(p.id)
	return p.report(ctx)
}
