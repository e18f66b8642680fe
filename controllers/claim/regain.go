package claim

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// regain asks the ledger again for the block or range that the claim shows, and that the ledger does not have. If the
// ledger refuses a range, regain notes that in facts.shown, and the table decides again.
func (p *pass) regain(ctx context.Context) (err error) {
	if p.facts.target == aBlock {
		p.block, err = p.regainBlock(ctx)
	} else if p.block, err = p.regainRange(ctx); err != nil {
		if _, refused := errors.AsType[*outcome.Refusal](err); refused {
			p.facts.shown = none
			return nil
		}
	}
	p.facts.held = own
	return err
}

// regainBlock asks for the block that the claim's record shows. The ledger may lack the block because its key was
// deleted from etcd, because its pools were lost, or because an older record shows the same addresses, and recovery
// gave them to the claim of that record. If another claim has the addresses, this claim keeps its record, says so in
// its conditions, and waits: it gets the addresses when the other claim goes.
func (p *pass) regainBlock(ctx context.Context) (ledger.Block, error) {
	lost := p.lost()
	request, err := p.again(ctx)
	if errors.Is(err, ledger.ErrUnknownPool) {
		if err = p.remake(ctx); err == nil {
			request, err = p.again(ctx)
		}
	}
	if err != nil {
		lost.Err = err
		return ledger.Block{}, lost
	}
	block, err := p.ask(ctx, request)
	if errors.Is(err, ledger.ErrInUse) {
		p.r.Doubts.drop(request.Holder.Claim)
		p.decision.waits.at([]ledger.Request{request})
		said := fmt.Sprintf("%s was given to %s; delete one of the two claims",
			p.claim.Status.AllocatedCIDR, p.others(ctx, request))
		if cooling, ok := errors.AsType[*ledger.CoolingError](err); ok {
			said = fmt.Sprintf("%s: %v", p.claim.Status.AllocatedCIDR, cooling)
		}
		return ledger.Block{}, &outcome.Refusal{Reason: ipamv1alpha1.ReasonAddressInUse, Message: said}
	}
	if err != nil {
		lost.Err = err
		return ledger.Block{}, lost
	}
	return block, nil
}

// again returns the request of the claim for the block that its record shows.
func (p *pass) again(ctx context.Context) (ledger.Request, error) {
	of := p.slot.Record
	prefix, err := netip.ParsePrefix(of.Status.AllocatedCIDR)
	if err != nil {
		return ledger.Request{}, err
	}
	pool, found, err := p.shownPool(ctx)
	if err == nil && !found {
		err = ledger.ErrUnknownPool
	}
	if err != nil {
		return ledger.Request{}, err
	}
	var space *resolve.Space
	if scope := of.Spec.Scope; len(scope) > 0 {
		space = &resolve.Space{Workspace: p.decision.tenant(), Scope: resolve.LedgerScope(scope)}
	}
	return ledger.Request{
		Pool: space.In(pool), Begins: space.Begins(pool), Holder: p.holder(), Exact: prefix, Class: of.Spec.ClassName,
		Policy: ledger.ReclaimPolicy(of.Spec.ReclaimPolicy), Since: p.claim.CreationTimestamp.Time,
	}, nil
}

// remake re-creates the lost pools of the claim's chain around the block of the claim's record. The ledger lost these
// pools before their IPPools were published.
func (p *pass) remake(ctx context.Context) error {
	block, err := netip.ParsePrefix(p.slot.Record.Status.AllocatedCIDR)
	if err != nil {
		return err
	}
	d := &p.decision
	plan, err := d.plan(ctx)
	if err != nil {
		return err
	}
	for i := range plan.Chain {
		level := &plan.Chain[i]
		if level.Exact, err = block.Addr().Prefix(level.Length); err != nil {
			return err
		}
	}
	if len(plan.Chain) == 0 {
		return ledger.ErrUnknownPool
	}
	pool, above, err := d.provide(ctx, plan)
	if err != nil {
		return err
	}
	d.r.Ranges.Announce(above...)
	return d.r.Ranges.Publish(ctx, pool)
}

// others names the claim that has addresses of a request. It names no claim of another tenant.
func (p *pass) others(ctx context.Context, r ledger.Request) string {
	blocks, err := p.r.Ledger.Pools.Overlapping(ctx, r.Pool, r.Exact)
	for _, b := range blocks {
		if err == nil && b.Holder.Namespace != "" && b.Holder.Tenant() == r.Holder.Tenant() {
			return fmt.Sprintf("claim %s in namespace %s", b.Holder.Name, b.Holder.Namespace)
		}
	}
	return "a claim of another workspace"
}

// regainRange lets the claim hold again the range that it shows. The hold was given up, another ID of the claim's name
// has it, or the ledger has lost the pool a moment after it was made. A missing pool is made as if the claim asked for
// this CIDR by its spec. A refusal says why the claim cannot hold the range.
func (p *pass) regainRange(ctx context.Context) (ledger.Block, error) {
	d, claim := &p.decision, p.decision.claim
	defer func() { d.claim = claim }()
	d.claim = claim.DeepCopy()
	d.claim.Spec.Address, d.claim.Spec.PrefixLength = claim.Status.AllocatedCIDR, 0
	plan, err := d.plan(ctx)
	if err != nil {
		return ledger.Block{}, err
	}
	return d.descend(ctx, plan)
}
