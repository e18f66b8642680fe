package claim

import (
	"context"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// imagine returns the pool that would be carved. Above may be imagined, too.
func (d *decision) imagine(ctx context.Context, req ledger.Request, p, above ledger.Pool) (ledger.Pool, error) {
	p.ID = p.Derived.ID()
	req.Holder = ledger.Holder{Claim: ledger.ClaimID(p.ID), Cluster: p.Cluster, Name: p.Name}
	var err error
	if _, known := d.Ledger.Pools.Get(req.Pool); known {
		p.CIDR, err = d.Ledger.Reservations.Preview(ctx, req)
	} else {
		p.CIDR, err = first(above, req)
	}
	d.imagined = p
	return p, err
}

// first returns the block that an empty pool would give.
func first(in ledger.Pool, req ledger.Request) (netip.Prefix, error) {
	free := index.New(in.CIDR)
	for _, excluded := range in.Excluded {
		free.Exclude(excluded)
	}
	if req.Exact.IsValid() && free.Free(req.Exact) {
		return req.Exact, nil
	}
	p, ok := free.Find(req.Length, req.Strategy)
	if !ok || req.Exact.IsValid() {
		return p, &ledger.ExhaustedError{Pool: in.ID, Length: req.Length, Largest: -1}
	}
	return p, nil
}

// suppose answers a dry run with the block, or the range, of a pool that would be made.
func (d *decision) suppose(plan resolve.Plan, pool ledger.Pool) (ledger.Block, error) {
	if isRange(d.claim) {
		return rangeOf(pool), nil
	}
	request := d.request(plan, derived(pool, plan.Strategy, plan.Length))
	prefix, err := first(pool, request)
	return ledger.Block{
		Prefix: prefix, Pool: pool.ID, Holder: d.holder, Class: plan.ClassName, Policy: request.Policy, State: ledger.Reserved, BoundAt: time.Now(),
	}, err
}
