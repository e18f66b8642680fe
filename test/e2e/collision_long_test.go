//go:build long

package e2e

import (
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A tenant creates claims whose records would have the same name, in every order, with deletions, Retain, restarts
// and sweeps in between. No live claim loses its block, no block is allocated to two claims, and every claim has a
// record.
func TestLong_Collision(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t).Replica(t, "sweeping", sweeping...)
	platform.StartController(t)
	c := collision{scene{T: t, platform: platform, tenant: platform.Tenant(t), name: framework.Name(t), cidr: platform.CIDR(t)}}
	pool := offer(t, platform, c.name, part(c.cidr, 26)) // four blocks of /28

	t.Log("both live: two blocks, two records")
	a := c.holds(twinA, gen.Length(28))
	b := c.holds(twinB, gen.Length(28))
	c.distinct(a, b)
	if short := recordOf(t, c.tenant, a).Name; short != ipamv1alpha1.AllocationName("default", twinA) {
		t.Errorf("the first claim's record is %s; want the short name", short)
	}
	if long := recordOf(t, c.tenant, b).Name; len(long) != len("alloc-")+64 || !strings.HasPrefix(long, ipamv1alpha1.AllocationName("default", twinB)) {
		t.Errorf("the second claim's record is %s; want alloc- and 64 digits", long)
	}
	c.restart()
	c.swept(a, b)

	t.Log("the owner of the short name goes and comes back, while the other lives")
	framework.Delete(t, c.tenant, a)
	framework.WaitGone(t, c.tenant, a.DeepCopy())
	waitHeld(t, c.platform, pool, size(blockOf(t, b)))
	c.swept(b)
	a = c.holds(twinA, gen.Length(28))
	c.distinct(a, b)

	t.Log("the owner of the long name goes and comes back")
	framework.Delete(t, c.tenant, b)
	framework.WaitGone(t, c.tenant, b.DeepCopy())
	waitHeld(t, c.platform, pool, size(blockOf(t, a)))
	c.swept(a)
	b = c.holds(twinB, gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	c.distinct(a, b)

	t.Log("the owner of the long name is retained, beside the live owner of the short one")
	framework.Delete(t, c.tenant, b)
	kept := c.retained(b)
	c.swept(a)
	c.restart()
	c.swept(a)
	again := gen.Claim(twinB, gen.OfClass(c.name), gen.Length(28))
	framework.Create(t, c.tenant, again)
	framework.WaitAllocated(t, c.tenant, again, ipamv1alpha1.ReasonAllocationRetained)
	showsRefusal(t, again, kept.Name, false)

	t.Log("the owner of the short name goes; the retained block stays, and still stands in the way of its own name alone")
	framework.Delete(t, c.tenant, a)
	framework.WaitGone(t, c.tenant, a.DeepCopy())
	waitHeld(t, c.platform, pool, size(blockOf(t, b)))
	c.swept()
	a = c.holds(twinA, gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	framework.Delete(t, c.tenant, kept)
	framework.WaitBound(t, c.tenant, again)
	c.distinct(a, again)

	t.Log("the retained record with the short name does not stand in the way of the other name")
	framework.Delete(t, c.tenant, a, again)
	c.retained(a)
	b = c.holds(twinB, gen.Length(28))
	waitHeld(t, c.platform, pool, size(blockOf(t, a), blockOf(t, b)))
	c.swept(b)

	t.Log("another workspace gets what is left, and no address of these")
	rest := blocksOf(t, bindSome(t, platform.Tenant(t), c.name, "rest", 2)...)
	disjointIn(t, pool.Spec.CIDR, append(rest, blockOf(t, a), blockOf(t, b))...)
	framework.Delete(t, c.tenant, b)
	framework.Delete(t, c.tenant, c.retained(a))
	waitHeld(t, c.platform, pool, size(rest...))
	c.platform.WaitVerified(t)
}

// swept waits for two sweeps and for a verification that finds nothing. It fails the test if a claim was written
// meanwhile.
func (c collision) swept(claims ...*ipamv1alpha1.IPClaim) {
	c.Helper()
	before := make([]*ipamv1alpha1.IPClaim, len(claims))
	for i, claim := range claims {
		before[i] = claim.DeepCopy()
	}
	c.platform.WaitSwept(c, 3)
	c.platform.WaitVerified(c)
	for _, claim := range before {
		unchanged(c.T, c.tenant, claim)
	}
}

// restart kills the controller and starts it again.
func (c collision) restart() {
	c.Helper()
	c.platform.KillController(c)
	c.platform.StartController(c)
}
