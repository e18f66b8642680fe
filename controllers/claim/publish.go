package claim

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
)

// publish writes the record of the block, and sets the claim's status to it.
func (p *pass) publish(ctx context.Context, block ledger.Block) error {
	// The claim's word as it stands now, else what the class said when the block was bound. It counts also while the
	// pool cannot be named, as its workspace may have gone.
	if policy := cmp.Or(ledger.ReclaimPolicy(p.claim.Spec.ReclaimPolicy), block.Policy); policy != block.Policy {
		if err := p.Ledger.Retained.SetPolicy(ctx, block.Holder.Claim, policy); err != nil {
			return err
		}
		block.Policy = policy
	}
	poolRef, err := p.names.poolOf(block)
	if err != nil {
		return err
	}
	pool, _ := p.Ledger.Pools.Get(block.Pool)
	number := p.number(ctx, block, p.claim.Status.Number)
	want := record.New(p.claim, block, record.Place{Name: p.slot.Name, Pool: poolRef, Scope: record.Scope(pool)})
	want.Status.Number = number
	if err := p.slot.write(ctx, want); err != nil {
		return err
	}
	p.Answers.Forget(block.Holder)
	if outcome.Failing(p.claim.Status.Conditions) {
		p.report.tell(corev1.EventTypeNormal, ipamv1alpha1.ReasonReconciled, "bound to "+block.Prefix.String())
	}
	p.report.correct(block)
	succeeded(p.claim, block, poolRef, p.slot.Name)
	p.claim.Status.Number = number
	log.FromContext(ctx).Info("bound", "pool", poolRef.Name, "prefix", block.Prefix)
	return nil
}

// naming names pools as a workspace sees them.
type naming struct {
	pools     views.Pools
	directory *directory.Directory
	from      ledger.ClusterName
}

// poolOf names the pool of a block. That of an address space is the pool that has it.
func (n naming) poolOf(block ledger.Block) (ipamv1alpha1.PoolRef, error) {
	id := block.Pool
	if of, is := ledger.AddressSpaceOf(id); is {
		id = of
	}
	pool, ok := n.pools.Get(id)
	if !ok {
		return ipamv1alpha1.PoolRef{}, fmt.Errorf("pool %s of block %s is not in the ledger", block.Pool, block.Prefix)
	}
	return n.ref(pool)
}

// ref names a pool by name alone when it is the workspace's own, else with its owner's path.
func (n naming) ref(pool ledger.Pool) (ipamv1alpha1.PoolRef, error) {
	ref := ipamv1alpha1.PoolRef{Name: pool.Name}
	if pool.Cluster == n.from {
		return ref, nil
	}
	owner := n.directory.Workspace(pool.Cluster)
	if owner.Path == "" {
		return ref, &outcome.Fault{Message: fmt.Sprintf("the path of pool %s's workspace is not known yet", pool.Name)}
	}
	ref.ProjectRef = &ipamv1alpha1.ProjectRef{Name: owner.Path}
	return ref, nil
}

// bound reports whether the claim has its block and its record as it should
// be, so that there is nothing to do.
func bound(claim *ipamv1alpha1.IPClaim, record *ipamv1alpha1.IPAllocation) bool {
	status := &claim.Status
	return status.Phase == ipamv1alpha1.ClaimBound &&
		status.ObservedGeneration == claim.Generation && !outcome.Failing(status.Conditions) &&
		records(record, claim) && record.Spec.ClaimRef.UID == claim.UID &&
		record.Status.AllocatedCIDR == status.AllocatedCIDR && record.Status.Address == status.Address &&
		equality.Semantic.DeepEqual(record.Status.Number, status.Number) && record.Spec.ClaimRef.AllocationID == status.AllocationID &&
		status.PoolRef != nil && equality.Semantic.DeepEqual(*status.PoolRef, record.Spec.PoolRef) &&
		status.BoundAllocationRef != nil && status.BoundAllocationRef.Name == record.Name
}

// succeeded sets the status of a claim that has its block, recorded under that name. Empty: it has no record, as it is
// a range.
func succeeded(claim *ipamv1alpha1.IPClaim, block ledger.Block, pool ipamv1alpha1.PoolRef, recorded string) {
	status := &claim.Status
	status.Phase = ipamv1alpha1.ClaimBound
	status.AllocatedCIDR, status.AllocationID = block.Prefix.String(), ""
	if ledger.IsAllocationID(block.Holder.Claim) {
		status.AllocationID = types.UID(block.Holder.Claim)
	}
	status.Address = record.Address(block.Prefix)
	status.ClassName = block.Class
	status.IPFamily = resolve.Family(block.Prefix)
	status.PoolRef = &pool
	status.BoundAllocationRef = nil
	if recorded != "" {
		status.BoundAllocationRef = &ipamv1alpha1.LocalRef{Name: recorded}
	}
	status.ObservedGeneration = claim.Generation
	outcome.Succeed(&status.Conditions, claim.Generation, "bound to "+block.Prefix.String())
}

// number returns the number of a block, by its class; nil if that gives none. Of a class that is gone it is the one
// that was shown.
func (r *Reconciler) number(ctx context.Context, block ledger.Block, shown *int64) *int64 {
	class, ok := r.Catalog.View(ctx).Class(block.Class)
	switch {
	case !ok:
		return shown
	case class.Spec.Number == nil || !block.Prefix.IsSingleIP():
		return nil
	}
	return new(class.Spec.Number.Of(block.Prefix.Addr()))
}

// slot is the place of a claim's IPAllocation, as the cache shows it.
type slot struct {
	record.Slot
	claim   *ipamv1alpha1.IPClaim
	cluster ledger.ClusterName
	client  client.Client
	maker   *record.Maker
	memory  *memory
}

// find looks into the cache.
func (s *slot) find(ctx context.Context) (err error) {
	s.Slot, err = record.Find(ctx, s.client, client.ObjectKeyFromObject(s.claim))
	return err
}

// own reports whether the claim has its own record. Its block was confirmed before that
// was written.
func (s *slot) own() bool { return records(s.Record, s.claim) }

// records reports whether a record, if there is one, is that of a claim: it names the claim's UID, or the allocation ID
// that the claim shows.
func records(record *ipamv1alpha1.IPAllocation, claim *ipamv1alpha1.IPClaim) bool {
	if record == nil || record.Spec.ClaimRef == nil {
		return false
	}
	id := record.Spec.ClaimRef.AllocationID
	return record.Spec.ClaimRef.UID == claim.UID || id != "" && claim.Status.AllocatedCIDR != "" && id == claim.Status.AllocationID
}

// write creates the record, or brings the existing one up to date.
func (s *slot) write(ctx context.Context, want *ipamv1alpha1.IPAllocation) error {
	if !s.own() {
		return s.create(ctx, want)
	}
	existing := s.Record
	updated := existing.DeepCopy()
	updated.Spec, updated.Status = want.Spec, want.Status
	updated.Status.Conditions = existing.DeepCopy().Status.Conditions
	if !equality.Semantic.DeepEqual(existing, updated) {
		outcome.Observe(updated.Status.Conditions, existing.Generation+1)
	}
	if err := patch.Snapshot(existing).PatchWhole(ctx, s.client, updated); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update IPAllocation %s: %w", want.Name, err)
	}
	return nil
}

// create creates the record, where the cache shows none of this claim. It creates none for a claim that the cache has
// seen to go since its block was confirmed: the release may have found no record of it. One that goes later is released
// after the record.
func (s *slot) create(ctx context.Context, want *ipamv1alpha1.IPAllocation) error {
	if err := shown(ctx, s.client, s.claim); err != nil {
		return fmt.Errorf("create no IPAllocation %s, as its claim is not there: %w", want.Name, err)
	}
	ctx, end := step(ctx, "create record")
	err := s.maker.Create(ctx, s.client, s.cluster, want)
	end(err)
	if apierrors.IsAlreadyExists(err) && s.memory.met(s.claim.UID, s.Slot) {
		return errUnseen
	}
	if err != nil {
		return fmt.Errorf("create IPAllocation %s: %w", want.Name, err)
	}
	s.memory.made(s.claim.UID, s.Slot)
	return nil
}

// dropFormer deletes the retained record of the former claim, whose block this claim has: its claimRef
// could never be set again. If another record has the name by now, that stays.
func (s *slot) dropFormer(ctx context.Context) error {
	former := s.Record
	err := s.client.Delete(ctx, former, client.Preconditions{UID: new(former.UID)})
	if apierrors.IsConflict(err) {
		return errUnseen
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete IPAllocation %s of the former claim: %w", former.Name, err)
	}
	s.Record = nil
	return nil
}
