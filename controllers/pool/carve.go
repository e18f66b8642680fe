package pool

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

// carve gives a child pool its block of the parent. A parent that is missing or
// full is waited for.
func (p *pass) carve(ctx context.Context) (ledger.Pool, error) {
	if former, replaced := p.waiting.enter(p.request, waitOf(p.pool, p.owner.Cluster)); replaced {
		p.Ledger.Waits.Withdraw(former) // of a pool without its finalizer
	}
	asks, err := p.asks(ctx)
	if err != nil {
		return ledger.Pool{}, err
	}
	parent, err := p.parent(ctx, asks)
	if err != nil {
		return ledger.Pool{}, err
	}
	request := ledger.Request{
		Pool:     ledger.PoolID(parent.Pool.UID),
		Holder:   ledger.Holder{Claim: ledger.ClaimID(p.id), Cluster: p.owner.Cluster, Name: p.pool.Name},
		Length:   parent.Length,
		Strategy: resolve.Strategy(parent.Strategy),
		Since:    p.pool.CreationTimestamp.Time,
		Limits:   ledger.Limits{Pool: parent.Pool.Spec.MaxPerConsumer.Int()},
	}
	if resolve.IsSlice(asks, parent.Pool) {
		request.Slice, request.Limits = true, ledger.Limits{} // nobody there has asked for it
	}
	child := p.entry(netip.Prefix{})
	child.Parent = request.Pool
	carved, err := p.Ledger.Pools.Carve(ctx, request, child)
	if err != nil {
		return ledger.Pool{}, p.refusedBy(parent.Pool, request, err)
	}
	p.waiting.leave(p.request)
	return carved, nil
}

// parent finds the pool to carve from. A child that has none waits in no list of the ledger.
func (p *pass) parent(ctx context.Context, asks *ipamv1alpha1.IPPool) (resolve.Candidate, error) {
	view := p.Catalog.View(ctx)
	parent, err := resolve.ParentQuery{Child: asks, From: p.owner, Platform: p.Directory.Platform()}.Resolve(view)
	if viewErr := view.Err(); viewErr != nil {
		return parent, viewErr
	}
	if err != nil {
		p.Ledger.Waits.Withdraw(ledger.ClaimID(p.id))
	}
	return parent, err
}

// refusedBy returns why the ledger has not carved a child from its parent. If room may come, the child waits for it there.
func (p *pass) refusedBy(parent *ipamv1alpha1.IPPool, request ledger.Request, err error) error {
	exhausted, full := errors.AsType[*ledger.ExhaustedError](err)
	over, limited := errors.AsType[*ledger.QuotaError](err)
	_, frozen := errors.AsType[*ledger.FrozenError](err)
	if full || limited || frozen {
		p.Ledger.Waits.Add(request)
	}
	switch {
	case frozen, errors.Is(err, ledger.ErrUnknownPool), errors.Is(err, ledger.ErrPoolDraining):
		return resolve.ParentNotReady(parent.Name)
	case full:
		return &outcome.Refusal{Reason: ipamv1alpha1.ReasonPoolExhausted, Message: fmt.Sprintf("pool %q: %v", parent.Name, exhausted)}
	case limited:
		return &outcome.Refusal{Reason: ipamv1alpha1.ReasonQuotaExceeded, Message: fmt.Sprintf("pool %q: %v", parent.Name, over)}
	}
	return err
}

// asks is the pool as it asks for its block: as a slice only if the ledger has given its workspace one. The label that
// says so could be stored past all policies, and the pool would count against no maxSlices.
func (p *pass) asks(ctx context.Context) (*ipamv1alpha1.IPPool, error) {
	of, labelled := p.pool.Labels[ipamv1alpha1.LabelSlice]
	if !labelled {
		return p.pool, nil
	}
	slice, ok, err := p.Ledger.Slices.Get(ctx, ledger.PoolID(of), p.owner.Cluster)
	if err != nil || ok && slice.State == ledger.SliceGiven && (slice.Child == "" || slice.Child == p.id) {
		return p.pool, err
	}
	asks := p.pool.DeepCopy()
	delete(asks.Labels, ipamv1alpha1.LabelSlice)
	return asks, nil
}

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
