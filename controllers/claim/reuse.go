package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// A retained record keeps the block of a former claim of the name. A claim with the policy Reuse gets that very block,
// if it asks for a block like it:
//
//	retained by the former claim ──▶ one transaction: bound to this claim ──▶ the old record is
//	deleted ──▶ a new one is created
//
// The ledger comes first, so that neither the deletion of the old record nor the end of its lease frees the block. If a
// pass ends between two steps, the next pass goes on: it finds the block by the claim's UID, and the old record by the
// claim's name.

// former returns the block that a retained record keeps, if the claim gets it. Otherwise it returns a refusal that says
// why not.
func (d *decision) former(ctx context.Context, record *ipamv1alpha1.IPAllocation) (ledger.Block, error) {
	plan, err := d.planReuse(ctx, record)
	if err != nil {
		return ledger.Block{}, err
	}
	block, ok, err := d.r.Ledger.Blocks.Lookup(ctx, ledger.ClaimID(record.AllocationID()))
	why := ""
	switch {
	case err != nil:
		return ledger.Block{}, err
	case !ok || block.State != ledger.Retained || !promise.Follows(block, d.holder):
		return ledger.Block{}, retains(record)
	case !block.Until.IsZero() && !d.r.clock.Now().Before(block.Until):
		why = "its lease is over, and it is about to be released"
	default:
		why = differs(plan, block)
	}
	if why != "" {
		return ledger.Block{}, otherwise(record, why)
	}
	return block, nil
}

// planReuse resolves a claim whose name is that of a retained record. It returns a refusal if the claim's policy is not
// Reuse, or if the claim would be refused even without that record.
func (d *decision) planReuse(ctx context.Context, record *ipamv1alpha1.IPAllocation) (resolve.Plan, error) {
	plan, err := d.plan(ctx, recordTopicOf(d.from.Cluster, record.Namespace, record.Name))
	refusal, refused := errors.AsType[*outcome.Refusal](err)
	if err != nil && !refused {
		return plan, err
	}
	policy, err := d.retainedPolicy(ctx)
	switch {
	case err != nil:
	case policy != ipamv1alpha1.RetainedReuse:
		err = retains(record)
	case refused:
		err = otherwise(record, refusal.Message)
	}
	return plan, err
}

// retainedPolicy returns the claim's policy for a retained record: its own, else that of its class.
func (d *decision) retainedPolicy(ctx context.Context) (ipamv1alpha1.RetainedPolicy, error) {
	if d.claim.Spec.RetainedPolicy != "" || d.class == "" {
		return d.claim.Spec.RetainedPolicy, nil
	}
	view := d.r.Catalog.View(ctx)
	class, ok := view.Class(d.class)
	if !ok {
		return "", view.Err()
	}
	return class.Spec.RetainedPolicy, nil
}

// differs says how a block differs from the request of a plan. It is empty if the block fits.
func differs(plan resolve.Plan, block ledger.Block) string {
	candidates := plan.Candidates
	if n := len(plan.Chain); n > 0 {
		candidates = []resolve.Candidate{derived(ledger.Pool{ID: plan.Chain[n-1].Derived.ID()}, plan.Strategy, plan.Length)}
	}
	at := slices.IndexFunc(candidates, func(c resolve.Candidate) bool {
		return plan.Space.In(ledger.PoolID(c.Pool.UID)) == block.Pool
	})
	switch {
	case plan.ClassName != block.Class:
		return fmt.Sprintf("it was given by %s, and this claim asks by %s", classOf(block.Class), classOf(plan.ClassName))
	case plan.Exact.IsValid() && plan.Exact != block.Prefix:
		return fmt.Sprintf("this claim asks for %s", plan.Exact)
	case plan.Number != nil && plan.Number.Of(block.Prefix.Addr()) != plan.Number.Value:
		return fmt.Sprintf("this claim asks for the number %d", plan.Number.Value)
	case at < 0:
		return "its pool is none of those that this claim may be served from"
	case !plan.Exact.IsValid() && candidates[at].Length != block.Prefix.Bits():
		return fmt.Sprintf("it is a /%d, and this claim asks for a /%d", block.Prefix.Bits(), candidates[at].Length)
	}
	return ""
}

func classOf(name string) string {
	if name == "" {
		return "the name of a pool"
	}
	return fmt.Sprintf("class %q", name)
}

// promises returns the Keeper that gives claims the blocks that they were promised.
func (r *Reconciler) promises() promise.Keeper {
	return promise.Keeper{Ledger: r.Ledger, Reclaims: r.Catalog.Reclaims}
}
