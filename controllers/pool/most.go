package pool

import (
	"context"
	"fmt"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
)

// counted refuses a new pool of a workspace that has as many as it may. The platform may have any number. So may the ledger
// give any number of slices, though they count; and a pool that shows its CIDR is not new, though the ledger may have lost it.
// No server is asked: the pools that are refused are looked at whenever one of the workspace goes.
func (p *pass) counted(ctx context.Context) error {
	if p.MaxPools == 0 || p.pool.Status.AllocatedCIDR != "" || p.owner.Cluster == p.Directory.Platform().Cluster ||
		p.Ledger.Pools.Count(p.owner.Cluster) < p.MaxPools {
		return nil
	}
	asks, err := p.asks(ctx)
	if _, slice := asks.Labels[ipamv1alpha1.LabelSlice]; err != nil || slice {
		return err
	}
	p.abandon(p.request)
	return &outcome.Refusal{
		Reason: ipamv1alpha1.ReasonQuotaExceeded,
		Message: fmt.Sprintf("the limit of a workspace is %d pools, child pools included; delete one of them, or ask the platform to raise the limit",
			p.MaxPools),
	}
}
