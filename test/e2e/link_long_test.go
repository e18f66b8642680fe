//go:build long

package e2e

import (
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A list that leaves out claims looks as if they were deleted, to every event and
// cache. Nothing is freed.
func TestLong_LinkAShortList(t *testing.T) {
	t.Parallel()
	link, platform := framework.NewPlatform(t).Link(t, "linked", sweeping...)
	platform.StartController(t)
	name, cidr := framework.Name(t), platform.CIDR(t)
	pool := offer(t, platform, name, cidr)
	tenant := platform.Tenant(t)
	claims := bindSome(t, tenant, name, "before", 5)

	link.Shorten(t, "ipclaims")
	platform.WaitSwept(t, 4)
	link.Restore()

	claims = append(claims, bindSome(t, tenant, name, "after", 1)...)
	framework.WaitBound(t, tenant, claims...)
	blocks := blocksOf(t, claims...)
	disjointIn(t, cidr, blocks...)
	waitHeld(t, platform, pool, size(blocks...))
}

// A claim whose deletion the cache has missed is shown until the next list. It is bound
// once, at most, and then it is known to be gone; a bound one is released by the list.
func TestLong_LinkAMissedDeletion(t *testing.T) {
	t.Parallel()
	link, platform := framework.NewPlatform(t).Link(t, "linked", sweeping...)
	platform.StartController(t)
	name := framework.Name(t)
	tenant := platform.Tenant(t)
	framework.Create(t, platform, gen.Class(name))
	missed := gen.Claim("missed", gen.OfClass(name), gen.Length(28))
	framework.Create(t, tenant, missed)
	framework.WaitAllocated(t, tenant, missed, ipamv1alpha1.ReasonNoOfferingPool)

	link.Deafen("ipclaims")
	framework.Delete(t, tenant, missed)
	pool := gen.Pool(name, gen.CIDR(platform.CIDR(t)), gen.Backs(name), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	framework.Create(t, platform, pool)
	claims := bindSome(t, tenant, name, "after", 2)
	waitHeld(t, platform, pool, size(blocksOf(t, claims...)...))
	const bound = "ipam_ledger_blocks_bound_total "
	before := metric(platform.Metrics(t), bound)
	platform.WaitSwept(t, 6) // three seconds; in each one it would be bound again
	if after := metric(platform.Metrics(t), bound); after != before {
		t.Errorf("%s blocks were bound, and then %s", before, after)
	}

	framework.Delete(t, tenant, claims[0])
	claims = append(claims, bindSome(t, tenant, name, "later", 1)...) // from where a watch goes on
	platform.WaitSwept(t, 3)
	waitHeld(t, platform, pool, size(blocksOf(t, claims...)...))
	link.Restore()
	link.Relist(t, "ipclaims")
	waitHeld(t, platform, pool, size(blocksOf(t, claims[1:]...)...))
}
