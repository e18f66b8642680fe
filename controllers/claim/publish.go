package claim

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
)

// publish writes the record of the block, and sets the claim's status to it.
func (p *pass) publish(ctx context.Context, block ledger.Block) error {
	poolRef, err := p.poolRef(p.from.Cluster, block)
	if err != nil {
		return err
	}
	if policy := p.policy(block); policy != block.Policy {
		if err := p.Ledger.Retained.SetPolicy(ctx, block.Holder.Claim, policy); err != nil {
			return err
		}
		block.Policy = policy
	}
	pool, _ := p.Ledger.Pools.Get(block.Pool)
	want := record.New(p.claim, block, record.Place{Name: p.slot.Name, Pool: poolRef, Scope: record.Scope(pool)})
	if err := p.writeRecord(ctx, want, block); err != nil {
		return err
	}
	if outcome.Failing(p.claim.Status.Conditions) {
		p.tell(corev1.EventTypeNormal, ipamv1alpha1.ReasonReconciled, "bound to "+block.Prefix.String())
	}
	p.correct(block)
	disputed := meta.IsStatusConditionTrue(p.claim.Status.Conditions, ipamv1alpha1.ConditionDisputed)
	succeeded(p.claim, block, poolRef, p.slot.Name)
	if block.State == ledger.Disputed && !disputed {
		p.warn(&outcome.Refusal{Reason: ipamv1alpha1.ReasonDisputed, Message: disputeOver(block)})
	}
	log.FromContext(ctx).Info("bound", "pool", poolRef.Name, "prefix", block.Prefix)
	return nil
}

// policy is what becomes of the block: the claim's word as it stands now, else
// what the class said when the block was bound.
func (p *pass) policy(block ledger.Block) ledger.ReclaimPolicy {
	if own := p.claim.Spec.ReclaimPolicy; own != "" {
		return ledger.ReclaimPolicy(own)
	}
	return block.Policy
}

// writeRecord creates the record, or brings the existing one up to date.
func (p *pass) writeRecord(ctx context.Context, want *ipamv1alpha1.IPAllocation, block ledger.Block) error {
	existing := p.slot.Record
	if !p.recorded() {
		return p.createRecord(ctx, want)
	}
	updated := existing.DeepCopy()
	updated.Spec, updated.Status = want.Spec, want.Status
	updated.Status.Conditions = existing.DeepCopy().Status.Conditions
	dispute(&updated.Status.Conditions, existing.Generation, block)
	if !equality.Semantic.DeepEqual(existing, updated) {
		outcome.Observe(updated.Status.Conditions, existing.Generation+1)
	}
	if err := patch.Snapshot(existing).PatchWhole(ctx, p.cluster.GetClient(), updated); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update IPAllocation %s: %w", want.Name, err)
	}
	return nil
}

// createRecord creates the record, where the cache shows none of this claim.
func (p *pass) createRecord(ctx context.Context, want *ipamv1alpha1.IPAllocation) error {
	ctx, end := step(ctx, "create record")
	err := p.maker.Create(ctx, p.cluster.GetClient(), p.from.Cluster, want)
	end(err)
	if apierrors.IsAlreadyExists(err) && p.memory.met(p.claim.UID, p.slot) {
		return errUnseen
	}
	if err != nil {
		return fmt.Errorf("create IPAllocation %s: %w", want.Name, err)
	}
	p.memory.made(p.claim.UID, p.slot)
	return nil
}
