//go:build long

package e2e

import (
	"fmt"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A controller that is killed in the middle of a crowd of claims and started again binds
// every one of them, and none twice.
func TestLong_RestartKilledInCrowd(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	name, cidr := framework.Name(t), platform.CIDR(t)
	pool := offer(t, platform, name, cidr)
	tenants := []*framework.Tenant{platform.Tenant(t), platform.Tenant(t)}

	come := crowdOf(t, name, tenants...)
	waitSomeBound(t, crowd/10, tenants...)
	platform.KillController(t)
	platform.StartController(t)
	if err := come.Wait(); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	blocks := boundBlocks(t, crowd/2, tenants...)
	disjointIn(t, cidr, blocks...)
	waitHeld(t, platform, pool, size(blocks...))
}

// What is done while the controller is away is settled when it comes: before its first
// start, after it was stopped in good order, and after it was killed.
func TestLong_RestartSettlesWhatItMissed(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	name, cidr := framework.Name(t), platform.CIDR(t)
	pool := platformPool(name, cidr, name)
	tenant := platform.Tenant(t)
	claim := func(name string) *ipamv1alpha1.IPClaim {
		claim := gen.Claim(name, gen.OfClass(pool.Name), gen.Length(28))
		framework.Create(t, tenant, claim)
		return claim
	}
	stays, goes := claim("stays"), claim("goes")
	framework.Create(t, platform, gen.Class(name), pool)
	settles := func() {
		t.Helper()
		platform.StartController(t)
		framework.WaitBound(t, tenant, stays, goes)
		waitHeld(t, platform, pool, size(blockOf(t, stays), blockOf(t, goes)))
		disjointIn(t, cidr, boundBlocks(t, 2, tenant)...)
	}

	settles()
	for round, end := range []func(testing.TB){platform.StopController, platform.KillController} {
		end(t)
		framework.Delete(t, tenant, stays, goes, claim("unseen"))
		stays, goes = claim("stays"), claim(fmt.Sprintf("comes-%d", round))
		settles()
	}
}
