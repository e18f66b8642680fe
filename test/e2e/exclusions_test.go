package e2e

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// What is reserved or excluded is not handed out, asked for or not, and counts as
// allocated, once. It does not hold the pool.
func TestExclusions(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	// Of the 16 addresses, 0 to 3 and 14 to 15 are reserved, 2 to 7 are excluded.
	pool := s.ownPool(gen.CIDR("10.0.0.0/28"), gen.Reserves(2, 1, 31), gen.Excludes("10.0.0.2/31", "10.0.0.4/30"))
	waitHeld(t, s.tenant, pool, big.NewInt(10))
	if pool.Status.LargestFreePrefix == nil || *pool.Status.LargestFreePrefix != 30 {
		t.Errorf("the largest free prefix is %v; want 30", pool.Status.LargestFreePrefix)
	}
	for address, says := range map[string]string{
		"10.0.0.0": `pool "own" reserves 10.0.0.0/29`, "10.0.0.5": `pool "own" excludes 10.0.0.4/30`, "10.0.0.15": "10.0.0.14/31",
		"10.0.0.12/30": "10.0.0.14/31", "10.0.0.0/28": "10.0.0.2/31",
	} {
		claim := gen.Claim("exact-"+strings.NewReplacer(".", "-", "/", "-").Replace(address), gen.FromPool("own"), gen.Address(address))
		framework.Create(t, s.tenant, claim)
		framework.WaitAllocated(t, s.tenant, claim, ipamv1alpha1.ReasonAddressReserved)
		showsRefusal(t, claim, says, true)
	}
	first, second := gen.Claim("first", gen.FromPool("own"), gen.Length(30)), gen.Claim("second", gen.FromPool("own"), gen.Length(31))
	framework.Create(t, s.tenant, first)
	framework.WaitBound(t, s.tenant, first)
	framework.Create(t, s.tenant, second)
	framework.WaitBound(t, s.tenant, second)
	if one, two := first.Status.AllocatedCIDR, second.Status.AllocatedCIDR; one != "10.0.0.8/30" || two != "10.0.0.12/31" {
		t.Errorf("the claims got %s and %s; want 10.0.0.8/30 and 10.0.0.12/31", one, two)
	}
	waitHeld(t, s.tenant, pool, big.NewInt(16))
	if pool.Status.Phase != ipamv1alpha1.PoolExhausted {
		t.Errorf("the phase of a full pool is %s", pool.Status.Phase)
	}
	framework.Delete(t, s.tenant, first, second)
	deleteUnused(t, s.tenant, pool)
}

// An exclusion that comes later takes nothing away: the pool says what lies in it, and
// hands that out no more once it is released. Taking the exclusion back serves who waits.
func TestExclusions_Later(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pool := s.ownPool(gen.CIDR("10.0.0.0/27"))
	holder := gen.Claim("holder", gen.FromPool("own"), gen.Address("10.0.0.0/29"))
	framework.Create(t, s.tenant, holder)
	framework.WaitBound(t, s.tenant, holder)

	s.excludes(pool, `["10.0.0.0/28"]`)
	waitHeld(t, s.tenant, pool, big.NewInt(16))
	s.poolSays(pool, "given out before and stay until they are released: 1")
	unchanged(t, s.tenant, holder)
	waits := gen.Claim("waits", gen.FromPool("own"), gen.Length(27))
	framework.Create(t, s.tenant, waits)
	framework.WaitAllocated(t, s.tenant, waits, ipamv1alpha1.ReasonPoolExhausted)
	showsRefusal(t, waits, "/28", false)

	framework.Delete(t, s.tenant, holder)
	s.poolSays(pool, "")
	waitHeld(t, s.tenant, pool, big.NewInt(16))
	next := gen.Claim("next", gen.FromPool("own"), gen.Length(29))
	framework.Create(t, s.tenant, next)
	framework.WaitBound(t, s.tenant, next)
	disjointIn(t, "10.0.0.16/28", blockOf(t, next))

	framework.Delete(t, s.tenant, next)
	s.excludes(pool, `null`)
	framework.WaitBound(t, s.tenant, waits)
	waitHeld(t, s.tenant, pool, big.NewInt(32))
}

// A gateway is not handed out, nor are the network and the broadcast address beside it. They count as
// allocated, until the gateway is taken off the pool.
func TestExclusions_Gateway(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pool := s.ownPool(gen.CIDR("10.0.0.0/29"), gen.Gateway("10.0.0.1", 0))
	waitHeld(t, s.tenant, pool, big.NewInt(3))
	var waits *ipamv1alpha1.IPClaim
	for address, says := range map[string]string{
		"10.0.0.1": `10.0.0.1 is the gateway of pool "own"`, "10.0.0.0": `10.0.0.0 is the network address of pool "own"`,
		"10.0.0.7": `10.0.0.7 is the broadcast address of pool "own"`,
	} {
		claim := gen.Claim("exact-"+strings.ReplaceAll(address, ".", "-"), gen.FromPool("own"), gen.Address(address))
		framework.Create(t, s.tenant, claim)
		framework.WaitAllocated(t, s.tenant, claim, ipamv1alpha1.ReasonAddressReserved)
		showsRefusal(t, claim, says, true)
		if address == "10.0.0.1" {
			waits = claim
		}
	}
	if err := s.tenant.Patch(t.Context(), pool, merge(`{"spec": {"gateway": "10.0.1.1"}}`)); err == nil || !strings.Contains(err.Error(), "spec.gateway must be an address of the network of the pool") {
		t.Errorf("a gateway outside of the pool: %v; want it refused", err)
	}
	if err := s.tenant.Patch(t.Context(), pool, merge(`{"spec": {"gateway": "10.0.0.6"}}`)); err != nil {
		t.Fatalf("Patch: %v", err)
	}
	framework.WaitBound(t, s.tenant, waits)
	waitHeld(t, s.tenant, pool, big.NewInt(4))
}

// A pool that has nothing left is exhausted, not broken, and its child is carved around
// what is excluded.
func TestExclusions_OfAllAndAroundChildren(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	all := gen.Pool("all", gen.CIDR("10.1.0.0/24"), gen.Excludes("10.1.0.0/25", "10.1.0.128/25"))
	some := gen.Pool("some", gen.CIDR("10.2.0.0/24"), gen.Reserves(1, 0, 32))
	child := gen.Pool("child", gen.ChildOf("some", 25), gen.Reserves(1, 1, 32))
	framework.Create(t, s.tenant, all, some, child)
	waitHeld(t, s.tenant, all, big.NewInt(256))
	if all.Status.Phase != ipamv1alpha1.PoolExhausted || !meta.IsStatusConditionTrue(all.Status.Conditions, ipamv1alpha1.ConditionReady) {
		t.Errorf("the status of a pool that is all excluded is %+v", all.Status)
	}
	framework.WaitAllocated(t, s.tenant, child, ipamv1alpha1.ReasonAllocationSucceeded)
	if got := child.Status.AllocatedCIDR; got != "10.2.0.128/25" {
		t.Errorf("the child got %s; want 10.2.0.128/25", got)
	}
	waitHeld(t, s.tenant, child, big.NewInt(2))
	waitHeld(t, s.tenant, some, big.NewInt(129))
}

// excludes replaces what a pool excludes.
func (s scene) excludes(pool *ipamv1alpha1.IPPool, cidrs string) {
	s.Helper()
	if err := s.tenant.Patch(s.Context(), pool, merge(`{"spec": {"excludedCIDRs": `+cidrs+`}}`)); err != nil {
		s.Fatal(err)
	}
}

// poolSays waits until a ready pool says this of what it holds; nothing but its CIDR if
// it is given nothing.
func (s scene) poolSays(pool *ipamv1alpha1.IPPool, text string) {
	s.Helper()
	framework.WaitFor(s, client.Reader(s.tenant), pool, func(pool *ipamv1alpha1.IPPool) error {
		answer := meta.FindStatusCondition(pool.Status.Conditions, ipamv1alpha1.ConditionAllocated)
		if answer == nil || !strings.Contains(answer.Message, text) || text == "" && strings.Contains(answer.Message, "given out before") {
			return errors.New("it does not say " + text)
		}
		return nil
	})
}
