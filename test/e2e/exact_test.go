package e2e

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A claim for an address gets that and nothing else, whichever way it names its pool and
// wherever among several the address lies.
func TestExact(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	platform := s.pool(s.cidr)
	inPlatform := prefix(s.cidr).Addr().Next().String()
	s.ownPool(gen.CIDR("192.168.0.0/24"), gen.Backs(s.name), gen.Label("tier", "web"))
	six := gen.Pool("six", gen.CIDR("2001:db8::/64"))
	framework.Create(t, s.tenant, six)

	for name, row := range map[string]struct {
		by   gen.ClaimOption
		asks string
		want string
		pool string
	}{
		"host-by-pool":       {gen.FromPool("own"), "192.168.0.7", "192.168.0.7/32", "own"},
		"block-by-pool":      {gen.FromPool("own"), "192.168.0.16/28", "192.168.0.16/28", "own"},
		"host-by-label":      {gen.Selecting("tier", "web"), "192.168.0.9", "192.168.0.9/32", "own"},
		"block-by-class":     {gen.OfClass(s.name), "192.168.0.32/28", "192.168.0.32/28", "own"},
		"host-of-platform":   {gen.OfClass(s.name), inPlatform, inPlatform + "/32", platform.Name},
		"host-of-six":        {gen.FromPool("six"), "2001:db8::7", "2001:db8::7/128", "six"},
		"block-of-six":       {gen.FromPool("six"), "2001:db8:0:0:1::/80", "2001:db8:0:0:1::/80", "six"},
		"length-as-the-host": {gen.FromPool("own"), "192.168.0.8", "192.168.0.8/32", "own"},
	} {
		options := []gen.ClaimOption{row.by, gen.Address(row.asks)}
		if name == "length-as-the-host" {
			options = append(options, gen.Length(32))
		}
		claim := gen.Claim(name, options...)
		framework.Create(t, s.tenant, claim)
		framework.WaitBound(t, s.tenant, claim)
		if got := claim.Status; got.AllocatedCIDR != row.want || got.PoolRef.Name != row.pool {
			t.Errorf("%s: got %s of pool %s; want %s of %s", name, got.AllocatedCIDR, got.PoolRef.Name, row.want, row.pool)
		}
		if blockOf(t, claim).IsSingleIP() != (claim.Status.Address == row.asks) {
			t.Errorf("%s: the address is %q", name, claim.Status.Address)
		}
	}
}

// An address that is taken, in part or whole, is waited for, by age. Others are not
// offered, and nobody else is kept waiting.
func TestExact_InUse(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.ownPool(gen.CIDR("10.0.0.0/24"))
	claims := func(name string, options ...gen.ClaimOption) *ipamv1alpha1.IPClaim {
		claim := gen.Claim(name, append(options, gen.FromPool("own"))...)
		framework.Create(t, s.tenant, claim)
		return claim
	}
	refused := func(name string, options ...gen.ClaimOption) *ipamv1alpha1.IPClaim {
		claim := claims(name, options...)
		framework.WaitAllocated(t, s.tenant, claim, ipamv1alpha1.ReasonAddressInUse)
		showsRefusal(t, claim, claim.Spec.Address, false)
		s.later(claim)
		return claim
	}
	host := claims("host", gen.Address("10.0.0.5"))
	framework.WaitBound(t, s.tenant, host)
	same := refused("same", gen.Address("10.0.0.5"))
	around := refused("around", gen.Address("10.0.0.0/28"))
	again := refused("again", gen.Address("10.0.0.5"))
	framework.WaitBound(t, s.tenant, claims("beside", gen.Address("10.0.0.6")), claims("any", gen.Length(25)))

	framework.Delete(t, s.tenant, host)
	framework.WaitBound(t, s.tenant, same)
	unchanged(t, s.tenant, around)
	unchanged(t, s.tenant, again)
	framework.Delete(t, s.tenant, same)
	framework.WaitBound(t, s.tenant, again)
	beside := gen.Claim("beside")
	framework.Delete(t, s.tenant, again, beside)
	framework.WaitBound(t, s.tenant, around)
}

// An address that its pool withholds is never handed out: CREATE says so, and so does the
// reconcile of a claim that waits while the pool withholds it. The claims bind when the pool
// gives the address up.
func TestExact_Reserved(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pool := s.ownPool(gen.CIDR("10.0.0.0/24"), gen.Reserves(2, 0, 32))
	first := answered(t, s.tenant, gen.Claim("first", gen.FromPool("own"), gen.Address("10.0.0.1")), create)
	if says := meta.FindStatusCondition(first.Status.Conditions, ipamv1alpha1.ConditionAllocated); says.Reason != string(ipamv1alpha1.ReasonAddressReserved) {
		t.Fatalf("CREATE is answered with reason %s; want %s", says.Reason, ipamv1alpha1.ReasonAddressReserved)
	}
	showsRefusal(t, first, `pool "own" reserves 10.0.0.0/31`, true)

	holder := gen.Claim("holder", gen.FromPool("own"), gen.Address("10.0.0.9"))
	framework.Create(t, s.tenant, holder)
	framework.WaitBound(t, s.tenant, holder)
	second := gen.Claim("second", gen.FromPool("own"), gen.Address("10.0.0.9"))
	framework.Create(t, s.tenant, second)
	framework.WaitAllocated(t, s.tenant, second, ipamv1alpha1.ReasonAddressInUse)
	s.excludes(pool, `["10.0.0.8/30"]`)
	framework.WaitAllocated(t, s.tenant, second, ipamv1alpha1.ReasonAddressReserved)
	showsRefusal(t, second, `pool "own" excludes 10.0.0.8/30`, true)
	framework.Delete(t, s.tenant, holder)

	if err := s.tenant.Patch(t.Context(), pool, merge(`{"spec": {"reservations": null, "excludedCIDRs": null}}`)); err != nil {
		t.Fatalf("Patch: %v", err)
	}
	framework.WaitBound(t, s.tenant, first, second)
}

// An address that lies in no pool can't be had; it is stalled until one holds it.
func TestExact_OutOfRange(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	s.pool(s.cidr)
	outside := gen.Claim("outside", gen.OfClass(s.name), gen.Address("172.16.0.1"))
	framework.Create(t, s.tenant, outside)
	framework.WaitAllocated(t, s.tenant, outside, ipamv1alpha1.ReasonAddressOutOfRange)
	showsRefusal(t, outside, "172.16.0.1", true)

	s.ownPool(gen.CIDR("172.16.0.0/24"), gen.Backs(s.name))
	framework.WaitBound(t, s.tenant, outside)
}
