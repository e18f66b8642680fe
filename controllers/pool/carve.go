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

// carve gives a child pool its block, from its parent or from the first pool of its parent class that has room. If none
// has, carve refuses the child, and the child waits.
func (p *pass) carve(ctx context.Context) (ledger.Pool, error) {
	if former, replaced := p.waiting.enter(p.request, waitOf(p.pool, p.owner.Cluster)); replaced {
		p.Ledger.Waits.Withdraw(former) // of a former pool of this name
	}
	asks, err := p.asks(ctx)
	if err != nil {
		return ledger.Pool{}, err
	}
	plan, err := p.parents(ctx, asks)
	if err != nil {
		return ledger.Pool{}, err
	}
	var refusals []*outcome.Refusal
	var waits []ledger.PoolID
	for _, parent := range plan.Candidates[:min(len(plan.Candidates), mostParents)] {
		request := p.asked(asks, plan, parent)
		child := p.entry(netip.Prefix{})
		child.Parent = request.Pool
		carved, err := p.Ledger.Pools.Carve(ctx, request, child)
		if err == nil {
			p.waiting.leave(p.request)
			return carved, nil
		}
		refusal, waited := p.refusedBy(parent.Pool, request, err)
		if refusal == nil {
			return ledger.Pool{}, err
		}
		if waited {
			waits = append(waits, request.Pool)
		}
		if refusals = append(refusals, refusal); refusal.Reason == ipamv1alpha1.ReasonQuotaExceeded && ofClass(err) {
			refusals = []*outcome.Refusal{refusal} // whatever the pool, the limit of the class is reached
			break
		}
	}
	p.Ledger.Waits.KeepOnly(ledger.ClaimID(p.id), waits...)
	return ledger.Pool{}, resolve.First(append(refusals, plan.Unfit...), nil)
}

// mostParents is how many parents a child pool asks for its block, and waits for, at most. Only a child that names a
// parent class can have more than one.
const mostParents = 64

// asked returns the request to carve the pool from one of its parents.
func (p *pass) asked(asks *ipamv1alpha1.IPPool, plan resolve.Plan, parent resolve.Candidate) ledger.Request {
	request := ledger.Request{
		Pool:     ledger.PoolID(parent.Pool.UID),
		Holder:   ledger.Holder{Claim: ledger.ClaimID(p.id), Cluster: p.owner.Cluster, Name: p.pool.Name},
		Length:   parent.Length,
		Exact:    plan.Exact,
		Class:    plan.ClassName,
		Strategy: resolve.Strategy(parent.Strategy),
		Since:    p.pool.CreationTimestamp.Time,
		Limits:   ledger.Limits{Pool: parent.Pool.Spec.MaxPerConsumer.Int(), Class: plan.Limit},
	}
	if resolve.IsSlice(asks, parent.Pool) {
		request.Slice, request.Limits = true, ledger.Limits{} // the workspace has not asked for its slice
	}
	return request
}

// parents finds the pools to carve from. A child without a parent waits in no list of the ledger.
func (p *pass) parents(ctx context.Context, asks *ipamv1alpha1.IPPool) (resolve.Plan, error) {
	view := p.Catalog.View(ctx)
	plan, err := resolve.ParentQuery{Child: asks, From: p.owner, Platform: p.Directory.Platform()}.Resolve(view)
	if viewErr := view.Err(); viewErr != nil {
		return plan, viewErr
	}
	if err != nil {
		p.Ledger.Waits.Withdraw(ledger.ClaimID(p.id))
	}
	return plan, err
}

// refusedBy returns why the ledger has not carved a child from a parent, or nil if err is a fault. If the parent may
// get room later, the child waits for the room in the ledger, and waits is true.
func (p *pass) refusedBy(
	parent *ipamv1alpha1.IPPool, request ledger.Request, err error,
) (refusal *outcome.Refusal, waits bool) {
	exhausted, full := errors.AsType[*ledger.ExhaustedError](err)
	over, limited := errors.AsType[*ledger.QuotaError](err)
	cooling, cools := errors.AsType[*ledger.CoolingError](err)
	excluded, withheld := errors.AsType[*ledger.ExcludedError](err)
	_, frozen := errors.AsType[*ledger.FrozenError](err)
	taken := errors.Is(err, ledger.ErrInUse)
	if waits = full || limited || frozen || cools || taken; waits {
		p.Ledger.Waits.Add(request)
	}
	refuse := func(reason ipamv1alpha1.Reason, format string, args ...any) (*outcome.Refusal, bool) {
		return &outcome.Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}, waits
	}
	switch {
	case frozen, errors.Is(err, ledger.ErrUnknownPool), errors.Is(err, ledger.ErrPoolDraining),
		errors.Is(err, ledger.ErrOutOfRange):
		return resolve.ParentNotReady(parent.Name), waits
	case full:
		return refuse(ipamv1alpha1.ReasonPoolExhausted, "pool %q: %v", parent.Name, exhausted)
	case limited && over.Class != "":
		return refuse(ipamv1alpha1.ReasonQuotaExceeded, "class %q: %v", over.Class, over)
	case limited:
		return refuse(ipamv1alpha1.ReasonQuotaExceeded, "pool %q: %v", parent.Name, over)
	case cools:
		return refuse(ipamv1alpha1.ReasonAddressInUse, "%s: %v", request.Exact, cooling)
	case taken:
		return refuse(ipamv1alpha1.ReasonAddressInUse, "%s is in use, in part or whole", request.Exact)
	case withheld:
		return refuse(ipamv1alpha1.ReasonAddressReserved,
			"%s is never handed out: pool %q withholds %s; ask for an address outside of that, "+
				"or for a prefix length instead of an address", request.Exact, parent.Name, excluded.Excluded)
	}
	return nil, waits
}

// ofClass reports whether err says that the limit of a class is reached.
func ofClass(err error) bool {
	over, ok := errors.AsType[*ledger.QuotaError](err)
	return ok && over.Class != ""
}

// asks returns the pool with which the pass requests a block. The result lacks the label of a slice, unless the ledger
// has given that slice to the pool's workspace, and to no other pool of it. Otherwise a user who stores the label past
// all policies would get a pool that no limit bounds.
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

// counted refuses a new pool of a workspace that has as many pools as it may. The platform may have any number of
// pools, and the ledger may give any number of slices, though slices count. A pool that shows its CIDR is not new, even
// if the ledger has lost the pool. counted asks no server. The refused pools of a workspace are requeued whenever one
// of its pools goes.
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
		Message: fmt.Sprintf("the limit of a workspace is %d pools, child pools included; "+
			"delete one of them, or ask the platform to raise the limit",
			p.MaxPools),
	}
}
