package e2e

import (
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sync/errgroup"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Pools of one domain overlap and give nothing out twice, and each counts in its window
// what the other has given out there, to the last address.
func TestDomain_NoAddressTwice(t *testing.T) {
	t.Parallel()
	tenant := framework.SharedPlatform(t).Tenant(t)
	big := gen.Pool("big", gen.CIDR("10.0.0.0/25"), gen.Domain("d"))
	small := gen.Pool("small", gen.CIDR("10.0.0.64/26"), gen.Domain("d"))
	for _, pool := range []*ipamv1alpha1.IPPool{big, small} {
		framework.Create(t, tenant, pool)
		framework.WaitAllocated(t, tenant, pool, ipamv1alpha1.ReasonAllocationSucceeded)
	}
	of := func(pool string, n int) *ipamv1alpha1.IPClaim {
		return gen.Claim(fmt.Sprint(pool, "-", n), gen.FromPool(pool), gen.Length(28))
	}
	// The eight blocks that there are: one of those of the big pool is in the small one.
	claims := []*ipamv1alpha1.IPClaim{
		of("big", 0), of("small", 0), of("big", 1), of("small", 1), of("big", 2), of("small", 2), of("big", 3), of("big", 4),
	}
	var come errgroup.Group
	for _, claim := range claims {
		come.Go(func() error { return tenant.Create(t.Context(), claim) })
	}
	if err := come.Wait(); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	framework.WaitBound(t, tenant, claims...)
	blocks := make([]netip.Prefix, 0, len(claims))
	for _, claim := range claims {
		blocks = append(blocks, blockOf(t, claim))
	}
	disjointIn(t, "10.0.0.0/25", blocks...)
	waitHeld(t, tenant, big, size(prefix("10.0.0.0/25")))
	waitHeld(t, tenant, small, size(prefix("10.0.0.64/26")))

	late := of("small", 3)
	framework.Create(t, tenant, late)
	framework.WaitAllocated(t, tenant, late, ipamv1alpha1.ReasonPoolExhausted)
	framework.Delete(t, tenant, claims[1])
	framework.WaitBound(t, tenant, late)
	if got, want := blockOf(t, late), blockOf(t, claims[1]); got != want {
		t.Errorf("the claim that waited has %s; want %s, which was released", got, want)
	}
	waitHeld(t, tenant, small, size(prefix("10.0.0.64/26")))
}

// A pool joins a domain and leaves it while it is empty, and is refused both while it is
// in use. Outside of a domain it may not overlap others.
func TestDomain_JoinAndLeave(t *testing.T) {
	t.Parallel()
	tenant := framework.SharedPlatform(t).Tenant(t)
	older, newer := gen.Pool("older", gen.CIDR("10.0.0.0/24")), gen.Pool("newer", gen.CIDR("10.0.0.0/24"), gen.Domain("d"))
	framework.Create(t, tenant, older)
	framework.WaitAllocated(t, tenant, older, ipamv1alpha1.ReasonAllocationSucceeded)
	framework.Create(t, tenant, newer)
	framework.WaitAllocated(t, tenant, newer, ipamv1alpha1.ReasonOverlap)

	joins := func(domain string) func(*ipamv1alpha1.IPPool) {
		return func(pool *ipamv1alpha1.IPPool) { pool.Spec.AddressDomain = domain }
	}
	framework.Update(t, tenant, older, joins("d"))
	framework.WaitAllocated(t, tenant, newer, ipamv1alpha1.ReasonAllocationSucceeded)
	first, second := gen.Claim("first", gen.FromPool("older"), gen.Length(25)), gen.Claim("second", gen.FromPool("newer"), gen.Length(25))
	framework.Create(t, tenant, first, second)
	framework.WaitBound(t, tenant, first, second)
	disjointIn(t, "10.0.0.0/24", blockOf(t, first), blockOf(t, second))

	for _, domain := range []string{"", "e"} {
		framework.WaitCondition(t, tenant, older, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonInUse)
		err := tenant.Patch(t.Context(), older.DeepCopy(), merge(fmt.Sprintf(`{"spec": {"addressDomain": %q}}`, domain)))
		isRefused(t, err, "spec.addressDomain", "put a pool in use in the domain %q", domain)
	}
	framework.Delete(t, tenant, first)
	framework.WaitCondition(t, tenant, older, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonUnused)
	framework.Update(t, tenant, older, joins(""))
	framework.WaitAllocated(t, tenant, older, ipamv1alpha1.ReasonOverlap)
	if status := older.Status; status.AllocatedCIDR != "" || status.Phase != ipamv1alpha1.PoolError {
		t.Errorf("the status of a pool that was refused is %+v", status)
	}
	framework.WaitBound(t, tenant, second)
	framework.Delete(t, tenant, second)
	deleteUnused(t, tenant, newer)
	framework.WaitAllocated(t, tenant, older, ipamv1alpha1.ReasonAllocationSucceeded)
	deleteUnused(t, tenant, older)
}
