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
	"github.com/kcp-ipam/ipam/test/must"
)

// A later exclusion takes no block away. The pool says which blocks lie in it, and does not hand them out again once
// they are released. When the exclusion is removed, waiting claims are served.
func TestExclusions_TakeNoBlockAway(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pool := s.ownPool(gen.CIDR("10.0.0.0/27"))
	holder := gen.Claim("holder", gen.FromPool("own"), gen.Address("10.0.0.0/29"))
	framework.Bind(t, s.tenant, holder)

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
	framework.Bind(t, s.tenant, next)
	disjointIn(t, "10.0.0.16/28", blockOf(t, next))

	framework.Delete(t, s.tenant, next)
	s.excludes(pool, `null`)
	framework.WaitBound(t, s.tenant, waits)
	waitHeld(t, s.tenant, pool, big.NewInt(32))
}

// A gateway is not handed out, and neither are the network and broadcast addresses beside it. They count as allocated
// until the gateway is removed from the pool.
func TestExclusions_WithholdTheGateway(t *testing.T) {
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
	must.Do(t, s.tenant.Patch(t.Context(), pool, merge(`{"spec": {"gateway": "10.0.0.6"}}`)))
	framework.WaitBound(t, s.tenant, waits)
	waitHeld(t, s.tenant, pool, big.NewInt(4))
}

// An address that its pool withholds is never handed out. Both CREATE and the reconcile of a waiting claim say so.
// The claims bind when the pool no longer withholds the address.
func TestExact_NeverGivesAWithheldAddress(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pool := s.ownPool(gen.CIDR("10.0.0.0/24"), gen.Reserves(2, 0, 32))
	first := answered(t, s.tenant, gen.Claim("first", gen.FromPool("own"), gen.Address("10.0.0.1")), create)
	if says := meta.FindStatusCondition(first.Status.Conditions, ipamv1alpha1.ConditionAllocated); says.Reason != string(ipamv1alpha1.ReasonAddressReserved) {
		t.Fatalf("CREATE is answered with reason %s; want %s", says.Reason, ipamv1alpha1.ReasonAddressReserved)
	}
	showsRefusal(t, first, `pool "own" reserves 10.0.0.0/31`, true)

	holder := gen.Claim("holder", gen.FromPool("own"), gen.Address("10.0.0.9"))
	framework.Bind(t, s.tenant, holder)
	second := gen.Claim("second", gen.FromPool("own"), gen.Address("10.0.0.9"))
	framework.Create(t, s.tenant, second)
	framework.WaitAllocated(t, s.tenant, second, ipamv1alpha1.ReasonAddressInUse)
	s.excludes(pool, `["10.0.0.8/30"]`)
	framework.WaitAllocated(t, s.tenant, second, ipamv1alpha1.ReasonAddressReserved)
	showsRefusal(t, second, `pool "own" excludes 10.0.0.8/30`, true)
	framework.Delete(t, s.tenant, holder)

	must.Do(t, s.tenant.Patch(t.Context(), pool, merge(`{"spec": {"reservations": null, "excludedCIDRs": null}}`)))
	framework.WaitBound(t, s.tenant, first, second)
}

// excludes replaces the exclusions of a pool.
func (s scene) excludes(pool *ipamv1alpha1.IPPool, cidrs string) {
	s.Helper()
	must.Do(s, s.tenant.Patch(s.Context(), pool, merge(`{"spec": {"excludedCIDRs": `+cidrs+`}}`)))
}

// poolSays waits until the message of a pool contains text. With an empty text, it waits until the message no longer
// speaks of blocks that were given out before.
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
