package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// If a namespace is deleted, its claims go with it, and their blocks are free.
func TestRelease_FreesTheBlocksOfADeletedNamespace(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name, cidr := framework.Name(t), platform.CIDR(t)
	pool := offer(t, platform, name, cidr)
	tenant := platform.Tenant(t)

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "short-lived"}}
	framework.Create(t, tenant, namespace)
	stays := gen.Claim("web", gen.OfClass(name), gen.Length(28))
	goes := gen.Claim("web", gen.OfClass(name), gen.Length(28), gen.Namespace(namespace.Name))
	framework.Bind(t, tenant, stays, goes)
	waitHeld(t, platform, pool, size(blockOf(t, stays), blockOf(t, goes)))

	framework.Delete(t, tenant, namespace)
	framework.WaitGone(t, tenant, namespace)
	waitHeld(t, platform, pool, size(blockOf(t, stays)))
}

// waitUnrecorded waits until there is no IPAllocation of a claim of the namespace default.
func waitUnrecorded(t *testing.T, c client.Reader, claim string) {
	t.Helper()
	record := &ipamv1alpha1.IPAllocation{}
	record.Namespace = metav1.NamespaceDefault
	record.Name = ipamv1alpha1.AllocationName(record.Namespace, claim)
	framework.WaitGone(t, c, record)
}

// If the record of a bound claim vanishes, it is written again, with the same block. That is never taken for a
// release.
func TestRecord_IsWrittenAgainWhenItVanishes(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	pool := s.pool(part(s.cidr, 27))
	claim := s.holds("web", gen.Length(28))
	before := recordOf(t, s.tenant, claim)

	framework.Delete(t, framework.System(t, s.tenant.Path), before.DeepCopy())
	again := before.DeepCopy()
	framework.Eventually(t, "the record to be written again", func(ctx context.Context) error {
		if err := s.tenant.Get(ctx, client.ObjectKeyFromObject(before), again); err != nil {
			return err
		}
		if again.UID == before.UID {
			return errors.New("it is still the former one")
		}
		return nil
	})
	if got := again.Status.AllocatedCIDR; got != claim.Status.AllocatedCIDR {
		t.Errorf("the record says %s, want %s", got, claim.Status.AllocatedCIDR)
	}
	unchanged(t, s.tenant, claim)
	waitHeld(t, s.platform, pool, size(blockOf(t, claim)))
}

// A released block is given to no other claim before its cooldown is over, the longer one of class and pool. Then a
// waiting claim gets it.
func TestCooldown(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Cooldown("8s"))
	pool := gen.Pool(s.name, gen.CIDR(part(s.cidr, 28)), gen.Backs(s.name), gen.Visible(ipamv1alpha1.VisibilityPlatform), gen.Cooldown("1s"))
	framework.Allocate(t, s.platform, pool)
	first := s.holds("first", gen.Length(28))

	begun := time.Now()
	framework.Delete(t, s.tenant, first)
	free := waitCooling(t, s.platform, pool)
	if free.Before(begun.Add(8 * time.Second)) {
		t.Errorf("the block is free at %s, want not before %s", free, begun.Add(8*time.Second))
	}
	second := gen.Claim("second", gen.OfClass(s.name), gen.Length(28))
	framework.Bind(t, s.tenant, second)
	wantNotBefore(t, second, free)
	if blockOf(t, second) != blockOf(t, first) {
		t.Errorf("the claim that waited has %s, want %s", blockOf(t, second), blockOf(t, first))
	}
	waitNotCooling(t, s.platform, pool)
}

// A claim with the former holder's name gets the block back, and its CREATE says so. A claim of that name in another
// namespace or workspace does not.
func TestCooldown_EndsForAClaimOfTheSameName(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Cooldown("1h"))
	small := gen.Pool(s.name+"-a", gen.CIDR(part(s.cidr, 27)), gen.Backs(s.name), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	framework.Allocate(t, s.platform, small)
	first := s.holds("web", gen.Length(28))
	framework.Delete(t, s.tenant, first)
	waitCooling(t, s.platform, small)
	waitUnrecorded(t, s.tenant, "web")

	stranger := s.platform.Tenant(t)
	theirs := gen.Claim("web", gen.OfClass(s.name), gen.Length(28))
	framework.Bind(t, stranger, theirs)
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

// waitCooling waits until a block of 16 addresses cools in a pool, and returns the time at which the next block
// becomes free.
func waitCooling(t *testing.T, c client.Reader, pool *ipamv1alpha1.IPPool) time.Time {
	t.Helper()
	framework.WaitWhile(t, c, pool, "16 of its addresses are to cool", func(pool *ipamv1alpha1.IPPool) bool {
		return pool.Status.Capacity == nil || pool.Status.Capacity.Cooling != "16" || pool.Status.NextRelease == nil
	})
	return pool.Status.NextRelease.Time
}

func waitNotCooling(t *testing.T, c client.Reader, pool *ipamv1alpha1.IPPool) {
	t.Helper()
	framework.WaitWhile(t, c, pool, "it has addresses that cool", func(pool *ipamv1alpha1.IPPool) bool {
		return pool.Status.Capacity.Cooling != "" || pool.Status.NextRelease != nil
	})
}

// wantNotBefore fails the test if a claim was bound before a time. Both times are shown in seconds.
func wantNotBefore(t *testing.T, claim *ipamv1alpha1.IPClaim, free time.Time) {
	t.Helper()
	bound := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionAllocated).LastTransitionTime
	if bound.Add(time.Second).Before(free) {
		t.Errorf("the claim was bound at %s, before %s", bound, free)
	}
}
