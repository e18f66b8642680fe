package e2e

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Those who wait for a pool are served by age; those who are not served yet are left alone.
func TestExhaustion_OldestFirst(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.ownPool(gen.CIDR("10.0.0.0/24"))
	first, second := gen.Claim("first", gen.FromPool("own"), gen.Length(25)), gen.Claim("second", gen.FromPool("own"), gen.Length(25))
	framework.Create(t, s.tenant, first, second)
	framework.WaitBound(t, s.tenant, first, second)

	oldest, middle, youngest := s.waits("z-oldest", 25), s.waits("m-middle", 25), s.waits("a-youngest", 25)
	for _, step := range []struct{ goes, comes *ipamv1alpha1.IPClaim }{{second, oldest}, {first, middle}, {oldest, youngest}} {
		framework.Delete(t, s.tenant, step.goes)
		framework.WaitBound(t, s.tenant, step.comes)
		if blockOf(t, step.comes) != blockOf(t, step.goes) {
			t.Errorf("claim %s got %s; want %s, which was freed", step.comes.Name, blockOf(t, step.comes), blockOf(t, step.goes))
		}
		if step.comes != youngest {
			unchanged(t, s.tenant, youngest)
		}
	}
}

// A claim that comes when a block becomes free does not get it before one that waits.
func TestExhaustion_NewcomerWaits(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.ownPool(gen.CIDR("10.0.0.0/28"))
	holder := gen.Claim("holder", gen.FromPool("own"), gen.Length(28))
	framework.Create(t, s.tenant, holder)
	framework.WaitBound(t, s.tenant, holder)

	waits := s.waits("waits", 28)
	for i := range 5 {
		newcomer := gen.Claim(fmt.Sprintf("newcomer-%d", i), gen.FromPool("own"), gen.Length(28))
		s.later(waits)
		framework.Delete(t, s.tenant, holder)
		framework.Create(t, s.tenant, newcomer)
		framework.WaitBound(t, s.tenant, waits)
		framework.WaitAllocated(t, s.tenant, newcomer, ipamv1alpha1.ReasonPoolExhausted)
		holder, waits = waits, newcomer
	}
}

// Many wait, of two tenants. Each block that is freed serves exactly one of them, and of
// the others none is written.
func TestExhaustion_NoStampede(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	pool := s.pool(part(s.cidr, 27))
	holders := []*ipamv1alpha1.IPClaim{s.holds("first", gen.Length(28)), s.holds("second", gen.Length(28))}
	other := s.platform.Tenant(t)
	for i := range 15 {
		framework.Create(t, s.tenant, gen.Claim(fmt.Sprintf("waits-%d", i), gen.OfClass(s.name), gen.Length(28)))
		framework.Create(t, other, gen.Claim(fmt.Sprintf("waits-%d", i), gen.OfClass(s.name), gen.Length(28)))
	}
	before := map[string]string{}
	framework.Eventually(t, "30 claims to wait", func(context.Context) error {
		before = versionsOf(t, s, other, ipamv1alpha1.ReasonPoolExhausted)
		if len(before) != 30 {
			return fmt.Errorf("%d do", len(before))
		}
		return nil
	})

	for i, holder := range holders {
		framework.Delete(t, s.tenant, holder)
		framework.Eventually(t, "one more claim to be bound", func(context.Context) error {
			if bound := len(versionsOf(t, s, other, ipamv1alpha1.ReasonAllocationSucceeded)); bound != 2 {
				return fmt.Errorf("%d are", bound)
			}
			if waiting := len(versionsOf(t, s, other, ipamv1alpha1.ReasonPoolExhausted)); waiting != 29-i {
				return fmt.Errorf("%d wait", waiting)
			}
			return nil
		})
		waitHeld(t, s.platform, pool, size(prefix(pool.Spec.CIDR))) // and what follows a release is over
	}
	after := versionsOf(t, s, other, ipamv1alpha1.ReasonPoolExhausted)
	maps.DeleteFunc(after, func(claim, version string) bool { return before[claim] == version })
	if len(after) != 0 {
		t.Errorf("of the claims that wait on, these were written: %v", after)
	}
}

// waits makes a claim of the tenant on its own pool that waits for room, and is younger
// than all that were made before.
func (s scene) waits(name string, length int32) *ipamv1alpha1.IPClaim {
	s.Helper()
	claim := gen.Claim(name, gen.FromPool("own"), gen.Length(length))
	framework.Create(s, s.tenant, claim)
	framework.WaitAllocated(s, s.tenant, claim, ipamv1alpha1.ReasonPoolExhausted)
	s.later(claim)
	return claim
}

// later waits until what is made next is younger than the claim: servers note the time in
// whole seconds.
func (s scene) later(claim *ipamv1alpha1.IPClaim) {
	s.Helper()
	framework.Eventually(s, "the claim to be older", func(context.Context) error {
		if left := time.Second - time.Since(claim.CreationTimestamp.Time); left > 0 {
			return fmt.Errorf("it will be in %s", left)
		}
		return nil
	})
}

// unchanged fails the test if a claim was written since it was read.
func unchanged(t *testing.T, c client.Reader, claim *ipamv1alpha1.IPClaim) {
	t.Helper()
	now := &ipamv1alpha1.IPClaim{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(claim), now); err != nil {
		t.Fatalf("Get: %v", err)
	}
	if now.ResourceVersion != claim.ResourceVersion {
		t.Errorf("claim %s was written:\nbefore %+v\nafter  %+v", claim.Name, claim.Status, now.Status)
	}
}

// versionsOf lists the claims of both tenants whose answer has that reason, with their
// resource versions.
func versionsOf(t *testing.T, s scene, other client.Reader, reason ipamv1alpha1.Reason) map[string]string {
	t.Helper()
	found := map[string]string{}
	for of, c := range map[string]client.Reader{"the tenant": s.tenant, "the other": other} {
		list := &ipamv1alpha1.IPClaimList{}
		if err := c.List(t.Context(), list); err != nil {
			t.Fatalf("List: %v", err)
		}
		for _, claim := range list.Items {
			answer := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionAllocated)
			if answer != nil && answer.Reason == string(reason) {
				found[claim.Name+" of "+of] = claim.ResourceVersion
			}
		}
	}
	return found
}
