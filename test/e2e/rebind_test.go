package e2e

import (
	"context"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A tenant comes and goes while the controller runs: it is served each time, and leaves
// nothing taken. At first it is the only one, so that the export's endpoint goes with it.
func TestRebind(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	name := framework.Name(t)
	pool := offer(t, platform, name, platform.CIDR(t))
	tenant := platform.Tenant(t)

	for range 3 {
		claimAnew(t, tenant, name)
		tenant.Unbind(t)
		waitHeld(t, platform, pool, size())
		tenant.Bind(t)
	}

	other := platform.Tenant(t)
	stays := claimAnew(t, other, name)
	for range 2 {
		goes := claimAnew(t, tenant, name)
		waitHeld(t, platform, pool, size(blockOf(t, stays), blockOf(t, goes)))
		tenant.Unbind(t)
		waitHeld(t, platform, pool, size(blockOf(t, stays)))
		tenant.Bind(t)
	}
	framework.WaitBound(t, other, stays)

	claimAnew(t, tenant, name)
	tenant.DeleteWorkspace(t)
	waitHeld(t, platform, pool, size(blockOf(t, stays)))
}

// claimAnew waits until the tenant's API is served, claims and is bound.
func claimAnew(t *testing.T, tenant *framework.Tenant, class string) *ipamv1alpha1.IPClaim {
	t.Helper()
	claim := gen.Claim("web", gen.OfClass(class), gen.Length(28))
	framework.Eventually(t, "a claim to be made", func(ctx context.Context) error { return tenant.Create(ctx, claim) })
	framework.WaitBound(t, tenant, claim)
	return claim
}
