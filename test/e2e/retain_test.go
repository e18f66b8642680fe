package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A retained block outlives its claim, in a record without a claim. It stays allocated until that record is deleted.
// Then a waiting claim gets it: a claim of the same name, which the record had blocked, or any other.
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

// Only the policy at the deletion of the claim counts, whatever the policy was before and whatever the class says,
// even if it was changed just before.
func TestRetain_FollowsThePolicyAtTheDeletion(t *testing.T) {
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
		framework.WaitWhile(t, s.tenant, recordOf(t, s.tenant, claim), "it does not record the new policy", func(record *ipamv1alpha1.IPAllocation) bool {
			return record.Spec.ReclaimPolicy != policy
		})
		framework.WaitWhile(t, s.tenant, claim, "the change is not observed", func(claim *ipamv1alpha1.IPClaim) bool {
			return claim.Status.ObservedGeneration != claim.Generation
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

// reclaims sets the reclaim policy of a claim.
func (s scene) reclaims(claim *ipamv1alpha1.IPClaim, policy ipamv1alpha1.ReclaimPolicy) {
	s.Helper()
	patch := merge(`{"spec": {"reclaimPolicy": "` + string(policy) + `"}}`)
	must.Do(s, s.tenant.Patch(s.Context(), claim, patch))
}

// retained waits until the record of a claim has outlived the claim, and returns it.
func (s scene) retained(claim *ipamv1alpha1.IPClaim) *ipamv1alpha1.IPAllocation {
	s.Helper()
	return retained(s.T, s.tenant, claim)
}

// retained waits until the record of a claim in any workspace has outlived the claim, and returns it.
func retained(t *testing.T, c client.Reader, claim *ipamv1alpha1.IPClaim) *ipamv1alpha1.IPAllocation {
	t.Helper()
	record := &ipamv1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Status.BoundAllocationRef.Name}}
	framework.WaitWhile(t, c, record, "it is not retained", func(record *ipamv1alpha1.IPAllocation) bool {
		return record.Spec.ClaimRef != nil || record.Spec.ReclaimPolicy != ipamv1alpha1.ReclaimRetain
	})
	return record
}

// A claim of the same name, class and length gets its retained block back, a moment after its CREATE, which says so.
// Then the block belongs to it, and is retained again, or freed, with this claim.
func TestReuse(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Reclaim(ipamv1alpha1.ReclaimRetain), gen.Lease("1h"), gen.OnRetained(ipamv1alpha1.RetainedReuse))
	pool := s.pool(s.cidr)
	former := s.holds("web", gen.Length(28))
	framework.Delete(t, s.tenant, former)
	record := s.retained(former)
	for _, options := range [][]gen.ClaimOption{
		{gen.Length(28)},
		{gen.Address(former.Status.AllocatedCIDR)},
		{gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimDelete)},
	} {
		claim := gen.Claim("web", append(options, gen.OfClass(s.name), gen.Unmet(ipamv1alpha1.UnmetRefuse))...) // not stored without an answer
		// The replica that answers learns of the retained record a moment later than the tenant.
		framework.Eventually(t, "the retained block to be offered", func(ctx context.Context) error {
			preview := claim.DeepCopy()
			if err := s.tenant.Create(ctx, preview, client.DryRunAll); err != nil {
				return err
			}
			said := meta.FindStatusCondition(preview.Status.Conditions, ipamv1alpha1.ConditionAllocated)
			if said == nil || !strings.Contains(said.Message, former.Status.AllocatedCIDR+" from a former claim of this name; this claim gets it in a moment") {
				return fmt.Errorf("the preview shows %+v", preview.Status)
			}
			return nil
		})
		must.Do(t, framework.Patiently(t, func(ctx context.Context) error { return s.tenant.Create(ctx, claim) }))
		if framework.WaitBound(t, s.tenant, claim); claim.Status.AllocatedCIDR != former.Status.AllocatedCIDR {
			t.Errorf("the claim has %s, want %s", claim.Status.AllocatedCIDR, former.Status.AllocatedCIDR)
		}
		now := recordOf(t, s.tenant, claim)
		if now.UID == record.UID || now.Spec.ClaimRef == nil || now.Spec.ClaimRef.UID != claim.UID || now.Status.Expires != nil {
			t.Errorf("the record is %+v, want that of the new claim, without an end", now)
		}
		waitHeld(t, s.platform, pool, size(blockOf(t, former)))
		framework.Delete(t, s.tenant, claim)
		framework.WaitGone(t, s.tenant, claim.DeepCopy())
		if claim.Spec.ReclaimPolicy != ipamv1alpha1.ReclaimDelete {
			record = s.retained(claim)
		}
	}
	waitUnrecorded(t, s.tenant, "web")
	waitHeld(t, s.platform, pool, size())
}

// A retained block is released when the lease of its class is over: its record goes, a claim that waits for room gets
// it, and an event says so. The record has shown the time.
func TestLease(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Reclaim(ipamv1alpha1.ReclaimRetain), gen.Lease("5s"))
	pool := s.pool(part(s.cidr, 28))
	former := s.holds("former", gen.Length(28))
	waiter := gen.Claim("waiter", gen.OfClass(s.name), gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimDelete))
	framework.Create(t, s.tenant, waiter)
	framework.WaitAllocated(t, s.tenant, waiter, ipamv1alpha1.ReasonPoolExhausted)
	deleted := time.Now()
	framework.Delete(t, s.tenant, former)
	record := s.retained(former)
	if expires := record.Status.Expires; expires == nil || expires.Time.Before(deleted.Add(4*time.Second)) {
		t.Errorf("the record expires at %v, want an end 5 s after %s", expires, deleted)
	}
	framework.WaitBound(t, s.tenant, waiter)
	if now := time.Now(); now.Before(record.Status.Expires.Time) {
		t.Errorf("the block is given to another claim at %s, before its lease ends at %s", now, record.Status.Expires)
	}
	if waiter.Status.AllocatedCIDR != former.Status.AllocatedCIDR {
		t.Errorf("the claim that waited got %s, want %s", waiter.Status.AllocatedCIDR, former.Status.AllocatedCIDR)
	}
	framework.WaitGone(t, s.tenant, record.DeepCopy())
	waitHeld(t, s.platform, pool, size(blockOf(t, waiter)))
	waitEvent(t, s.tenant.Owner(t), record, ipamv1alpha1.ReasonLeaseExpired)
}

// A pool bounds the lease of a class, and gives one if the class has none. If neither has a lease, the block is kept.
// Later changes of class and pool change no existing lease.
func TestLease_EndsByTheBoundOfThePool(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Reclaim(ipamv1alpha1.ReclaimRetain), gen.Lease("1h"))
	s.pool(s.cidr)
	s.ownPool(gen.CIDR("10.0.0.0/24"), gen.Lease("2s"))
	s.changePool(func(spec *ipamv1alpha1.IPPoolSpec) { spec.MaxRetentionLease = "30m" })
	expires := func(claim *ipamv1alpha1.IPClaim, want time.Duration) *ipamv1alpha1.IPAllocation {
		t.Helper()
		framework.WaitBound(t, s.tenant, claim)
		deleted := time.Now()
		framework.Delete(t, s.tenant, claim)
		record := s.retained(claim)
		got := record.Status.Expires
		if got == nil || got.Time.Before(deleted.Add(want-time.Second)) || got.After(time.Now().Add(want+2*time.Second)) {
			t.Errorf("the record of %s expires at %v, want %s after %s", claim.Name, got, want, deleted)
		}
		return record
	}
	retain := gen.Reclaim(ipamv1alpha1.ReclaimRetain)
	claim := s.holds("bounded", gen.Length(28))
	framework.WaitWhile(t, s.platform, gen.Pool(s.name), "its change is not observed", func(pool *ipamv1alpha1.IPPool) bool {
		return pool.Status.ObservedGeneration != pool.Generation // until the change is in the controller's cache
	})
	bounded := expires(claim, 30*time.Minute)
	s.changePool(func(spec *ipamv1alpha1.IPPoolSpec) { spec.MaxRetentionLease = "1s" })
	s.observedClass(func(spec *ipamv1alpha1.IPClassSpec) { spec.RetentionLease = "1s" })

	own := gen.Claim("own", gen.FromPool("own"), gen.Length(28), retain)
	framework.Bind(t, s.tenant, own)
	framework.Delete(t, s.tenant, own)
	gone := &ipamv1alpha1.IPAllocation{}
	gone.Namespace, gone.Name = own.Namespace, own.Status.BoundAllocationRef.Name
	framework.WaitGone(t, s.tenant, gone)

	other := gen.Pool("other", gen.CIDR("10.1.0.0/24"))
	framework.Allocate(t, s.tenant, other)
	forever := gen.Claim("forever", gen.FromPool("other"), gen.Length(28), retain)
	framework.Bind(t, s.tenant, forever)
	framework.Delete(t, s.tenant, forever)
	if record := s.retained(forever); record.Status.Expires != nil {
		t.Errorf("the record expires at %s, want no end", record.Status.Expires)
	}
	if now := s.retained(claim); now.ResourceVersion != bounded.ResourceVersion {
		t.Errorf("the record is %+v, was %+v; want it unchanged by what class and pool say later", now, bounded)
	}
}

// observedClass changes the class of the scene, and waits until the controller has seen the change.
func (s scene) observedClass(change func(*ipamv1alpha1.IPClassSpec)) {
	s.Helper()
	s.changeClass(change)
	framework.WaitWhile(s, client.Reader(s.platform), gen.Class(s.name), "the change is not observed", func(class *ipamv1alpha1.IPClass) bool {
		return class.Status.ObservedGeneration != class.Generation
	})
}
