package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// regain asks for the block that the claim and its record show, and that the ledger does not have. Somebody has deleted
// its key, or the ledger was made whole from records, and an older one has these addresses. Then the claim keeps its
// record, says so, and waits. It gets the addresses when the other claim goes.
func (p *pass) regain(ctx context.Context) (ledger.Block, error) {
	shown := p.claim.Status.AllocatedCIDR
	lost := &outcome.Fault{Message: "the ledger has no block of this claim, which shows " + shown}
	if err := p.shows(ctx, shown); err != nil {
		return ledger.Block{}, err
	}
	request, err := p.shown.again(ctx, p.holder(), p.slot.Record)
	if err != nil {
		lost.Err = err
		return ledger.Block{}, lost
	}
	block, err := p.ask(ctx, request)
	if errors.Is(err, ledger.ErrInUse) {
		p.Doubts.drop(request.Holder.Claim)
		p.waits.at([]ledger.Request{request})
		refusal := &outcome.Refusal{Reason: ipamv1alpha1.ReasonAddressInUse}
		if cooling, ok := errors.AsType[*ledger.CoolingError](err); ok {
			refusal.Message = fmt.Sprintf("%s: %v", shown, cooling)
		} else {
			refusal.Message = fmt.Sprintf("%s was given to %s; delete one of the two claims", shown, p.shown.others(ctx, request))
		}
		return ledger.Block{}, refusal
	}
	if err != nil {
		lost.Err = err
		return ledger.Block{}, lost
	}
	return block, nil
}

// again returns the request of a claim for the block of its record.
func (s showing) again(ctx context.Context, holder ledger.Holder, record *ipamv1alpha1.IPAllocation) (ledger.Request, error) {
	prefix, err := netip.ParsePrefix(record.Status.AllocatedCIDR)
	if err != nil {
		return ledger.Request{}, err
	}
	pool, found, err := s.pool(ctx)
	if err != nil || !found {
		return ledger.Request{}, cmp.Or(err, ledger.ErrUnknownPool)
	}
	var space *resolve.Space
	if scope := record.Spec.Scope; len(scope) > 0 {
		space = &resolve.Space{Workspace: s.from.Cluster.Tenant(s.claim.Namespace), Scope: resolve.LedgerScope(scope)}
	}
	return ledger.Request{
		Pool: space.In(pool), Begins: space.Begins(pool), Holder: holder, Exact: prefix, Class: record.Spec.ClassName,
		Policy: ledger.ReclaimPolicy(record.Spec.ReclaimPolicy), Since: s.claim.CreationTimestamp.Time,
	}, nil
}

// others names a claim that has addresses of a request; that of another tenant without its name.
func (s showing) others(ctx context.Context, r ledger.Request) string {
	blocks, err := s.Ledger.Pools.Overlapping(ctx, r.Pool, r.Exact)
	for _, b := range blocks {
		if err == nil && b.Holder.Namespace != "" && b.Holder.Tenant() == r.Holder.Tenant() {
			return fmt.Sprintf("claim %s in namespace %s", b.Holder.Name, b.Holder.Namespace)
		}
	}
	return "a claim of another workspace"
}
