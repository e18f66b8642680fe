package pool

import (
	"context"
	"fmt"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
)

// derived brings the status of a pool up to date that says the system has made it. The ledger alone has such pools: none is entered or
// retired here, and none has our finalizer.
func (p *pass) derived(ctx context.Context) error {
	if !p.pool.DeletionTimestamp.IsZero() || p.odd != nil {
		return nil //nolint:nilerr // What cannot be read stays as it is.
	}
	id, shown := catalog.ShownID(p.pool, p.owner.Cluster)
	if p.id != "" {
		id = p.id
	}
	if p.id != "" || shown {
		if whole, err := p.Adoption.Whole(ctx, id, p.pool.Status); err != nil {
			return p.fail(ctx, err)
		} else if !whole {
			return p.freeze(ctx, errLost)
		}
	}
	if p.id == "" {
		p.refuse(ctx, &outcome.Refusal{
			Reason:  ipamv1alpha1.ReasonPoolNotFound,
			Message: "the ledger has no pool of this name, class and scope: spec.classRef is given by the system; delete this pool",
		})
		return nil
	}
	p.Ledger.Recovery.Trust(p.id)
	if err := p.Ledger.Pools.EndDispute(ctx, p.id); err != nil {
		return p.fail(ctx, err)
	}
	p.pool.Status.ScopeDigest = ledger.Digest(p.id)
	return p.report(ctx)
}

// fullest returns the figures of the address space of a pool that has most of its addresses, and how many there are. A pool without
// address spaces is its own.
func (p *pass) fullest(entered ledger.Pool, own ledger.Capacity) (of ledger.Capacity, spaces int32) {
	of = own
	for _, s := range p.spaces(entered) {
		spaces++
		if c, ok := p.Ledger.Pools.Capacity(s.ID); ok && (spaces == 1 || c.Allocated.Cmp(of.Allocated) > 0) {
			of = c
		}
	}
	return of, spaces
}

// spaces lists the address spaces of a pool.
func (p *pass) spaces(entered ledger.Pool) (spaces []ledger.Pool) {
	if entered.Spaces == 0 {
		return nil
	}
	for _, below := range p.Ledger.Derived.Below(p.id) {
		if ledger.IsAddressSpace(below.ID) && below.Derived.Of == p.id {
			spaces = append(spaces, below)
		}
	}
	return spaces
}

// keptBy names the claim that holds a pool as a whole; empty: none does.
func (p *pass) keptBy() string {
	entered, _ := p.Ledger.Pools.Get(p.id)
	if entered.Derived == nil || entered.Derived.Holder.Claim == "" {
		return ""
	}
	if h := entered.Derived.Holder; h.Cluster == p.owner.Cluster {
		return "claim " + h.Namespace + "/" + h.Name
	}
	return "a claim of another workspace"
}

// use says who uses a pool: the claim that holds it, and those that have blocks of it, or of its address spaces.
func (p *pass) use(ctx context.Context) (string, error) {
	entered, _ := p.Ledger.Pools.Get(p.id)
	var names []string
	total := 0
	for _, of := range append(p.spaces(entered), entered) {
		capacity, _ := p.Ledger.Pools.Capacity(of.ID)
		own, idle, err := p.holders(ctx, of.ID)
		if err != nil {
			return "", err
		}
		names, total = append(names, own...), total+capacity.Blocks-idle
	}
	names = names[:min(len(names), named)]
	by := p.keptBy()
	switch {
	case by == "":
		return use(names, total), nil
	case total == 0:
		return by + " holds the pool", nil
	}
	return fmt.Sprintf("%s holds the pool, and %s", by, use(names, total)), nil
}

// holders lists holders of the pool's own workspace, and counts the pools that nobody uses. A block that cannot be read is counted with
// the others.
func (p *pass) holders(ctx context.Context, id ledger.PoolID) (own []string, idle int, err error) {
	for b, err := range p.Ledger.Blocks.List(ctx, allocator.ListOptions{Pool: id, Limit: looked}) {
		switch {
		case err != nil && !ledger.Unreadable(err):
			return nil, 0, err
		case err != nil, b.State == ledger.Cooling:
		case ledger.IsDerived(b.Holder.Claim) && p.idle(ledger.PoolID(b.Holder.Claim)):
			idle++
		case b.Holder.Cluster == p.owner.Cluster && len(own) < named:
			own = append(own, holderName(b))
		}
	}
	return own, idle, nil
}

func (p *pass) idle(id ledger.PoolID) bool {
	known, ok := p.Ledger.Pools.Get(id)
	return ok && known.Derived != nil && known.Derived.Holder.Claim == "" && !p.Ledger.Pools.InUse(id)
}
