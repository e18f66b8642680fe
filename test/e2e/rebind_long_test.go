//go:build long

package e2e

import (
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
)

// A tenant comes and goes while the controller runs: it is served each time, and leaves
// nothing taken. At first it is the only one, so that the export's endpoint goes with it.
func TestLong_Rebind(t *testing.T) {
	t.Parallel()
	platform, tenant, pool := alone(t)

	for range 3 {
		claimAnew(t, tenant, pool.Name)
		tenant.Unbind(t)
		waitHeld(t, platform, pool, size())
		tenant.Bind(t)
	}

	other := platform.Tenant(t)
	stays := claimAnew(t, other, pool.Name)
	for range 2 {
		goes := claimAnew(t, tenant, pool.Name)
		waitHeld(t, platform, pool, size(blockOf(t, stays), blockOf(t, goes)))
		tenant.Unbind(t)
		waitHeld(t, platform, pool, size(blockOf(t, stays)))
		tenant.Bind(t)
	}
	framework.WaitBound(t, other, stays)

	claimAnew(t, tenant, pool.Name)
	tenant.DeleteWorkspace(t)
	waitHeld(t, platform, pool, size(blockOf(t, stays)))
}
