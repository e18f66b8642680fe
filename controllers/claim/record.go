package claim

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
)

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

// records reports whether a record, if there is one, is that of a claim.
func records(record *ipamv1alpha1.IPAllocation, claim *ipamv1alpha1.IPClaim) bool {
	return record != nil && record.Spec.ClaimRef != nil && record.Spec.ClaimRef.UID == claim.UID
}

// write creates the record, or brings the existing one up to date.
func (s *slot) write(ctx context.Context, want *ipamv1alpha1.IPAllocation, block ledger.Block) error {
	if !s.own() {
		return s.create(ctx, want)
	}
	existing := s.Record
	updated := existing.DeepCopy()
	updated.Spec, updated.Status = want.Spec, want.Status
	updated.Status.Conditions = existing.DeepCopy().Status.Conditions
	dispute(&updated.Status.Conditions, existing.Generation, block)
	if !equality.Semantic.DeepEqual(existing, updated) {
		outcome.Observe(updated.Status.Conditions, existing.Generation+1)
	}
	if err := patch.Snapshot(existing).PatchWhole(ctx, s.client, updated); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update IPAllocation %s: %w", want.Name, err)
	}
	return nil
}

// create creates the record, where the cache shows none of this claim.
func (s *slot) create(ctx context.Context, want *ipamv1alpha1.IPAllocation) error {
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
