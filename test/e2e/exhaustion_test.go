package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
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

// Workspaces take turns in waiting: many older claims of one do not keep another's waiting.
func TestExhaustion_WorkspacesTakeTurns(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	s.pool(part(s.cidr, 27))
	held := []*ipamv1alpha1.IPClaim{s.holds("held-0", gen.Length(28)), s.holds("held-1", gen.Length(28))}
	var many []*ipamv1alpha1.IPClaim
	for i := range 5 {
		claim := gen.Claim(fmt.Sprint("many-", i), gen.OfClass(s.name), gen.Length(28))
		framework.Create(t, s.tenant, claim)
		framework.WaitAllocated(t, s.tenant, claim, ipamv1alpha1.ReasonPoolExhausted)
		many = append(many, claim)
	}
	s.later(many[4])
	quiet, single := s.platform.Tenant(t), gen.Claim("single", gen.OfClass(s.name), gen.Length(28))
	framework.Create(t, quiet, single)
	framework.WaitAllocated(t, quiet, single, ipamv1alpha1.ReasonPoolExhausted)

	framework.Delete(t, s.tenant, held[0])
	framework.Eventually(t, "one of the older claims to be bound", func(ctx context.Context) error {
		for _, claim := range many {
			if err := s.tenant.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil || claim.Status.AllocatedCIDR != "" {
				return err
			}
		}
		return errors.New("none is")
	})
	framework.Delete(t, s.tenant, held[1])
	framework.WaitBound(t, quiet, single)
}

// A small claim may pass a large one that cannot be served yet, and takes nothing that
// the large one could have had.
func TestExhaustion_SmallMayPassLarge(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.ownPool(gen.CIDR("10.0.0.0/24"))
	half, quarter := gen.Claim("half", gen.FromPool("own"), gen.Address("10.0.0.0/25")), gen.Claim("quarter", gen.FromPool("own"), gen.Address("10.0.0.128/26"))
	framework.Create(t, s.tenant, half, quarter)
	framework.WaitBound(t, s.tenant, half, quarter)

	large := s.waits("large", 25)
	small := gen.Claim("small", gen.FromPool("own"), gen.Length(26))
	framework.Create(t, s.tenant, small)
	framework.WaitBound(t, s.tenant, small)
	framework.Delete(t, s.tenant, half)
	framework.WaitBound(t, s.tenant, large)
	if got := large.Status.AllocatedCIDR; got != "10.0.0.0/25" {
		t.Errorf("the large claim got %s; want 10.0.0.0/25", got)
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
	for i := range 50 {
		framework.Create(t, s.tenant, gen.Claim(fmt.Sprintf("waits-%d", i), gen.OfClass(s.name), gen.Length(28)))
		framework.Create(t, other, gen.Claim(fmt.Sprintf("waits-%d", i), gen.OfClass(s.name), gen.Length(28)))
	}
	before := map[string]string{}
	framework.Eventually(t, "100 claims to wait", func(context.Context) error {
		before = versionsOf(t, s, other, ipamv1alpha1.ReasonPoolExhausted)
		if len(before) != 100 {
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
			if waiting := len(versionsOf(t, s, other, ipamv1alpha1.ReasonPoolExhausted)); waiting != 99-i {
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

// The refusal names each pool that was asked, with the largest block that would fit there.
func TestExhaustion_NamesWhatWasTried(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	full, half := platformPool(s.name+"-full", part(s.cidr, 24), s.name), platformPool(s.name+"-half", s.platform.CIDR(t), s.name)
	framework.Create(t, s.platform, full, half)
	framework.WaitAllocated(t, s.platform, full, ipamv1alpha1.ReasonAllocationSucceeded)
	framework.WaitAllocated(t, s.platform, half, ipamv1alpha1.ReasonAllocationSucceeded)
	s.ownPool(gen.CIDR("192.168.0.0/24"), gen.Backs(s.name))
	s.holds("all-of-own", gen.Address("192.168.0.0/24"))
	s.holds("all-of-full", gen.Address(string(full.Spec.CIDR)))
	s.holds("some-of-half", gen.Address(string(part(half.Spec.CIDR, 20))))

	claim := gen.Claim("web", gen.OfClass(s.name), gen.Length(16))
	framework.Create(t, s.tenant, claim)
	framework.WaitAllocated(t, s.tenant, claim, ipamv1alpha1.ReasonPoolExhausted)
	message := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionAllocated).Message
	for _, part := range []string{fmt.Sprintf("pool %q", half.Name), "/17"} {
		if !strings.Contains(message, part) {
			t.Errorf("the message is %q; want it to say %s", message, part)
		}
	}
	small := gen.Claim("small", gen.OfClass(s.name), gen.Length(24))
	framework.Create(t, s.tenant, small)
	framework.WaitBound(t, s.tenant, small)
	if small.Status.PoolRef.Name != half.Name {
		t.Errorf("the claim was served by pool %s; want %s, the next that has room", small.Status.PoolRef.Name, half.Name)
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
	s.past(claim, time.Second)
}

// past waits until a claim is so old.
func (s scene) past(claim *ipamv1alpha1.IPClaim, age time.Duration) {
	s.Helper()
	framework.Eventually(s, "the claim to be older", func(context.Context) error {
		if left := age - time.Since(claim.CreationTimestamp.Time); left > 0 {
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
