package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/outcome"
	"github.com/kcp-ipam/ipam/controllers/resolve"
)

// place resolves the claim and binds it to the first candidate that has room.
// A claim that finds none joins the waiting list of every candidate.
func (p *pass) place(ctx context.Context) (allocator.Block, error) {
	plan, err := p.resolve(ctx, topicsOf(p.claim, p.from, p.directory.Platform(), p.directory.Find))
	if plan.ClassName != "" && p.claim.Spec.ClassName == "" {
		// It is the default class: look once more, now waiting for its pools, too.
		plan, err = p.resolve(ctx, topicsOfDefault(plan.ClassName, p.from, p.directory.Platform()))
	}
	if err != nil {
		p.ledger.Withdraw(allocator.ClaimID(p.claim.UID))
		return allocator.Block{}, err
	}
	p.claim.Status.ClassName = plan.ClassName
	p.claim.Status.IPFamily = plan.Family
	return p.try(ctx, plan)
}

// resolve looks at the catalog. The claim waits for the topics from before the
// look, so that a change after it wakes the claim.
func (p *pass) resolve(ctx context.Context, topics []topic) (resolve.Plan, error) {
	p.waiting.enter(p.request, p.claim, topics)
	ctx, end := step(ctx, "resolve")
	defer end(nil) // a refusal is an answer
	view := p.catalog.View(ctx)
	plan, err := resolve.Query{Claim: p.claim, From: p.from, Platform: p.directory.Platform()}.Resolve(view)
	if viewErr := view.Err(); viewErr != nil {
		return resolve.Plan{}, viewErr
	}
	return plan, err
}

// try asks the candidates in turn.
func (p *pass) try(ctx context.Context, plan resolve.Plan) (allocator.Block, error) {
	var tried []miss
	for _, c := range plan.Candidates {
		block, err := p.ledger.Bind(ctx, p.ask(plan, c))
		frozen, isFrozen := errors.AsType[*allocator.FrozenError](err)
		switch {
		case isFrozen && !frozen.Lost && time.Since(p.started()) < checking:
			p.ledger.Wait(p.ask(plan, c))
			return allocator.Block{}, errUnchecked
		case err == nil:
			return block, nil
		case errors.Is(err, allocator.ErrUnknownPool), errors.Is(err, allocator.ErrPoolDraining), errors.Is(err, allocator.ErrOutOfRange):
			continue // the catalog lags behind the ledger
		case refusedRoom(err):
			tried = append(tried, miss{c, err})
		case overClass(err):
			return allocator.Block{}, p.wait(plan, append(tried, miss{c, err}))
		default:
			return allocator.Block{}, fmt.Errorf("bind in pool %s: %w", c.Pool.Name, err)
		}
	}
	return allocator.Block{}, p.wait(plan, tried)
}

// wait has the claim wait at every candidate that was tried, and nowhere else any more,
// and says why it does.
func (p *pass) wait(plan resolve.Plan, tried []miss) *outcome.Refusal {
	pools := make([]allocator.PoolID, len(tried))
	for i, m := range tried {
		pools[i] = allocator.PoolID(m.Pool.UID)
		p.ledger.Wait(p.ask(plan, m.Candidate))
	}
	p.ledger.WaitOnly(allocator.ClaimID(p.claim.UID), pools...)
	return refusal(plan, tried)
}

// ask is what the claim asks of a candidate.
func (p *pass) ask(plan resolve.Plan, c resolve.Candidate) allocator.Request {
	return allocator.Request{
		Pool:     allocator.PoolID(c.Pool.UID),
		Holder:   p.holder(),
		Length:   c.Length,
		Exact:    plan.Exact,
		Strategy: resolve.Strategy(c.Strategy),
		Class:    plan.ClassName,
		Policy:   allocator.ReclaimPolicy(plan.Policy),
		Since:    p.claim.CreationTimestamp.Time,
		Limits:   allocator.Limits{Pool: c.Pool.Spec.MaxPerConsumer.Int(), Class: plan.Limit},
	}
}

// miss is a candidate that had no room, and why.
type miss struct {
	resolve.Candidate
	err error
}

// over reports whether it was for a quota that the candidate refused.
func (m miss) over() bool {
	_, over := errors.AsType[*allocator.QuotaError](m.err)
	return over
}

// refusedRoom reports whether another pool may still have what this one refused.
func refusedRoom(err error) bool {
	var exhausted *allocator.ExhaustedError
	var frozen *allocator.FrozenError
	var over *allocator.QuotaError
	return errors.As(err, &exhausted) || errors.As(err, &frozen) || errors.Is(err, allocator.ErrInUse) ||
		errors.As(err, &over) && over.Class == ""
}

// overClass reports whether the workspace has what it may have by the class, whatever
// the pool.
func overClass(err error) bool {
	over, ok := errors.AsType[*allocator.QuotaError](err)
	return ok && over.Class != ""
}

// refusal says why no candidate served the claim.
func refusal(plan resolve.Plan, tried []miss) *outcome.Refusal {
	if len(tried) == 0 {
		return &outcome.Refusal{Reason: noPool(plan), Message: "the pool is being set up or taken down"}
	}
	for _, m := range tried {
		if frozen, ok := errors.AsType[*allocator.FrozenError](m.err); ok {
			return &outcome.Refusal{Reason: ipamv1alpha1.ReasonError, Message: fmt.Sprintf("pool %q is frozen: %v", m.Pool.Name, frozen)}
		}
	}
	if slices.ContainsFunc(tried, miss.over) {
		return &outcome.Refusal{Reason: ipamv1alpha1.ReasonQuotaExceeded, Message: say(tried)}
	}
	if plan.Exact.IsValid() && len(plan.Unfit) == 0 {
		return &outcome.Refusal{
			Reason:  ipamv1alpha1.ReasonAddressInUse,
			Message: fmt.Sprintf("%s is in use, in part or whole", plan.Exact),
		}
	}
	message := say(tried)
	if len(plan.Unfit) > 0 {
		message += "; " + resolve.Messages(plan.Unfit)
	}
	return &outcome.Refusal{Reason: ipamv1alpha1.ReasonPoolExhausted, Message: message}
}

// say lists why each pool refused, or the class, whose word is the last.
func say(tried []miss) string {
	said := make([]string, len(tried))
	for i, m := range tried {
		said[i] = fmt.Sprintf("pool %q: %v", m.Pool.Name, m.err)
		if over, ok := errors.AsType[*allocator.QuotaError](m.err); ok && over.Class != "" {
			return fmt.Sprintf("class %q: %v", over.Class, over)
		}
	}
	return strings.Join(slices.Compact(said), "; ")
}

// noPool is the reason when every candidate turned out not to be there.
func noPool(plan resolve.Plan) ipamv1alpha1.Reason {
	if plan.ClassName == "" {
		return ipamv1alpha1.ReasonPoolNotFound
	}
	return ipamv1alpha1.ReasonNoOfferingPool
}
