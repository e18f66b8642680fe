package e2e

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A retained block outlives its claim, in its record without a claim. It stays taken
// until that record is deleted, and then serves whoever waits for it: a claim of the same
// name, which the record stood in the way of, or any other.
func TestRetain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	pool := s.pool(part(s.cidr, 27))
	former := s.holds("web", gen.Length(28))
	s.holds("beside", gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimDelete))
	framework.Delete(t, s.tenant, former)
	record := s.retained(former)
	if got := record.Status.AllocatedCIDR; got != former.Status.AllocatedCIDR || record.Spec.ClassName != s.name {
		t.Errorf("the record keeps %s by class %s; want %s by %s", got, record.Spec.ClassName, former.Status.AllocatedCIDR, s.name)
	}
	if name, uid := record.HeldBy(); name != "web" || uid != former.UID {
		t.Errorf("the record says that the claim was %s of UID %s; want web, %s", name, uid, former.UID)
	}
	waitHeld(t, s.platform, pool, size(prefix(pool.Spec.CIDR)))

	sameName := gen.Claim("web", gen.OfClass(s.name), gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimDelete))
	framework.Create(t, s.tenant, sameName)
	framework.WaitAllocated(t, s.tenant, sameName, ipamv1alpha1.ReasonAllocationRetained)
	showsRefusal(t, sameName, record.Name, false)
	other := gen.Claim("other", gen.OfClass(s.name), gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimDelete))
	framework.Create(t, s.tenant, other)
	framework.WaitAllocated(t, s.tenant, other, ipamv1alpha1.ReasonPoolExhausted)
	unchanged(t, s.tenant, sameName)

	framework.Delete(t, s.tenant, sameName)
	framework.WaitGone(t, s.tenant, sameName.DeepCopy())
	if now := s.retained(former); now.UID != record.UID || now.ResourceVersion != record.ResourceVersion {
		t.Errorf("a claim that was never served has changed the record:\nbefore %+v\nafter  %+v", record, now)
	}
	framework.Delete(t, s.tenant, record)
	framework.WaitBound(t, s.tenant, other)
	if got := other.Status.AllocatedCIDR; got != former.Status.AllocatedCIDR {
		t.Errorf("the claim got %s; want %s, which was retained", got, former.Status.AllocatedCIDR)
	}
}

// The policy counts as it stands when the claim is deleted, whatever it was before and
// whatever the class says; however soon after the change.
func TestRetain_PolicyOfLiveClaim(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	pool := s.pool(s.cidr)
	toDelete := s.holds("to-delete", gen.Length(28))
	toRetain := s.holds("to-retain", gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimDelete))
	atOnce := s.holds("at-once", gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimDelete))
	for claim, policy := range map[*ipamv1alpha1.IPClaim]ipamv1alpha1.ReclaimPolicy{
		toDelete: ipamv1alpha1.ReclaimDelete, toRetain: ipamv1alpha1.ReclaimRetain,
	} {
		s.reclaims(claim, policy)
		framework.WaitFor(t, s.tenant, recordOf(t, s.tenant, claim), func(record *ipamv1alpha1.IPAllocation) error {
			if record.Spec.ReclaimPolicy != policy {
				return errors.New("it does not record the new policy")
			}
			return nil
		})
		framework.WaitFor(t, s.tenant, claim, func(claim *ipamv1alpha1.IPClaim) error {
			if claim.Status.ObservedGeneration != claim.Generation {
				return errors.New("the change is not observed")
			}
			return nil
		})
		showsSuccess(t, claim.Status.Conditions)
		framework.Delete(t, s.tenant, claim)
	}
	s.reclaims(atOnce, ipamv1alpha1.ReclaimRetain)
	framework.Delete(t, s.tenant, atOnce)

	s.retained(toRetain)
	s.retained(atOnce)
	waitUnrecorded(t, s.tenant, "to-delete")
	waitHeld(t, s.platform, pool, size(blockOf(t, toRetain), blockOf(t, atOnce)))
}

// reclaims sets the policy of a claim.
func (s scene) reclaims(claim *ipamv1alpha1.IPClaim, policy ipamv1alpha1.ReclaimPolicy) {
	s.Helper()
	patch := merge(`{"spec": {"reclaimPolicy": "` + string(policy) + `"}}`)
	must.Do(s, s.tenant.Patch(s.Context(), claim, patch))
}

// retained waits until the record of a claim has outlived it.
func (s scene) retained(claim *ipamv1alpha1.IPClaim) *ipamv1alpha1.IPAllocation {
	s.Helper()
	record := &ipamv1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Status.BoundAllocationRef.Name}}
	framework.WaitFor(s, s.tenant, record, func(record *ipamv1alpha1.IPAllocation) error {
		if record.Spec.ClaimRef != nil || record.Spec.ReclaimPolicy != ipamv1alpha1.ReclaimRetain {
			return errors.New("it is not retained")
		}
		return nil
	})
	return record
}
