package e2e

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A released block is given to nobody else before its time, the longer of those of class and pool, and then to a claim that
// waits.
func TestCooldown(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Cooldown("8s"))
	pool := gen.Pool(s.name, gen.CIDR(part(s.cidr, 28)), gen.Backs(s.name), gen.Visible(ipamv1alpha1.VisibilityPlatform), gen.Cooldown("1s"))
	framework.Create(t, s.platform, pool)
	framework.WaitAllocated(t, s.platform, pool, ipamv1alpha1.ReasonAllocationSucceeded)
	first := s.holds("first", gen.Length(28))

	begun := time.Now()
	framework.Delete(t, s.tenant, first)
	free := waitCooling(t, s.platform, pool)
	if free.Before(begun.Add(8 * time.Second)) {
		t.Errorf("the block is free at %s, want not before %s", free, begun.Add(8*time.Second))
	}
	second := gen.Claim("second", gen.OfClass(s.name), gen.Length(28))
	framework.Create(t, s.tenant, second)
	framework.WaitBound(t, s.tenant, second)
	wantNotBefore(t, second, free)
	if blockOf(t, second) != blockOf(t, first) {
		t.Errorf("the claim that waited has %s, want %s", blockOf(t, second), blockOf(t, first))
	}
	waitNotCooling(t, s.platform, pool)
}

// Refusals say until when.
func TestCooldown_Refusals(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	own := s.ownPool(gen.CIDR("10.0.0.0/28"), gen.Cooldown("1h"))
	first := gen.Claim("first", gen.FromPool("own"), gen.Length(28))
	framework.Create(t, s.tenant, first)
	framework.WaitBound(t, s.tenant, first)
	framework.Delete(t, s.tenant, first)
	free := waitCooling(t, s.tenant, own).Truncate(time.Hour).UTC().Format("2006-01-02T15:")
	for _, tt := range []struct {
		claim  *ipamv1alpha1.IPClaim
		reason ipamv1alpha1.Reason
		says   string
	}{
		{gen.Claim("other", gen.FromPool("own"), gen.Length(28)), ipamv1alpha1.ReasonPoolExhausted, "the next cooling block is free at " + free},
		{gen.Claim("exact", gen.FromPool("own"), gen.Address("10.0.0.5")), ipamv1alpha1.ReasonAddressInUse, "is given to nobody else until " + free},
	} {
		framework.Create(t, s.tenant, tt.claim)
		framework.WaitAllocated(t, s.tenant, tt.claim, tt.reason)
		said := meta.FindStatusCondition(tt.claim.Status.Conditions, ipamv1alpha1.ConditionAllocated).Message
		if !strings.Contains(said, tt.says) {
			t.Errorf("claim %s is refused with %q, want it to say %q", tt.claim.Name, said, tt.says)
		}
	}
}

// A claim of the former holder's name gets the block back, and its CREATE says so. One of
// that name elsewhere does not.
func TestCooldown_SameName(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Cooldown("1h"))
	small := gen.Pool(s.name+"-a", gen.CIDR(part(s.cidr, 27)), gen.Backs(s.name), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	framework.Create(t, s.platform, small)
	framework.WaitAllocated(t, s.platform, small, ipamv1alpha1.ReasonAllocationSucceeded)
	first := s.holds("web", gen.Length(28))
	framework.Delete(t, s.tenant, first)
	waitCooling(t, s.platform, small)
	waitUnrecorded(t, s.tenant, "web")

	stranger := s.platform.Tenant(t)
	theirs := gen.Claim("web", gen.OfClass(s.name), gen.Length(28))
	framework.Create(t, stranger, theirs)
	framework.WaitBound(t, stranger, theirs)
	if blockOf(t, theirs) == blockOf(t, first) {
		t.Errorf("the claim of another workspace has %s, which cools", blockOf(t, theirs))
	}
	again := answered(t, s.tenant, gen.Claim("web", gen.OfClass(s.name), gen.Length(28)), create)
	if got, want := again.Status.AllocatedCIDR, first.Status.AllocatedCIDR; got != want {
		t.Errorf("CREATE of the same name was answered with %q, want %s back", got, want)
	}
	framework.WaitBound(t, s.tenant, again)
	waitNotCooling(t, s.platform, small)
}

// waitCooling waits until a block of 16 addresses cools in a pool, and returns when the next one is free.
func waitCooling(t *testing.T, c client.Reader, pool *ipamv1alpha1.IPPool) time.Time {
	t.Helper()
	framework.WaitFor(t, c, pool, func(pool *ipamv1alpha1.IPPool) error {
		if pool.Status.Capacity == nil || pool.Status.Capacity.Cooling != "16" || pool.Status.NextRelease == nil {
			return errors.New("16 of its addresses are to cool")
		}
		return nil
	})
	return pool.Status.NextRelease.Time
}

func waitNotCooling(t *testing.T, c client.Reader, pool *ipamv1alpha1.IPPool) {
	t.Helper()
	framework.WaitFor(t, c, pool, func(pool *ipamv1alpha1.IPPool) error {
		if pool.Status.Capacity.Cooling != "" || pool.Status.NextRelease != nil {
			return errors.New("it has addresses that cool")
		}
		return nil
	})
}

// wantNotBefore fails the test if a claim was bound before a time. Both are shown in seconds.
func wantNotBefore(t *testing.T, claim *ipamv1alpha1.IPClaim, free time.Time) {
	t.Helper()
	bound := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionAllocated).LastTransitionTime
	if bound.Add(time.Second).Before(free) {
		t.Errorf("the claim was bound at %s, before %s", bound, free)
	}
}
