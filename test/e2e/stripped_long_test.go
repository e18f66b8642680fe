//go:build long

package e2e

import (
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Pools whose finalizers were taken off leave the ledger with their workspace, too.
func TestLong_PoolStrippedBeforeItsWorkspaceGoes(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t).Replica(t, "swept", sweeping...)
	platform.StartController(t)
	stays := platform.Tenant(t)
	framework.Create(t, stays, gen.Pool("stays", gen.CIDR("10.0.0.0/24")))
	framework.WaitAllocated(t, stays, gen.Pool("stays"), ipamv1alpha1.ReasonAllocationSucceeded)
	for name, leave := range map[string]func(*framework.Tenant){
		"unbound": func(tn *framework.Tenant) { tn.Unbind(t) },
		"deleted": func(tn *framework.Tenant) { tn.DeleteWorkspace(t) },
	} {
		tenant := platform.Tenant(t)
		pool := gen.Pool("pool", gen.CIDR("10.0.0.0/24"))
		framework.Allocate(t, tenant, pool)
		platform.KillController(t)
		strip(t, tenant.Owner(t), pool)
		leave(tenant)
		platform.StartController(t)
		waitPools(t, platform, 1)
		t.Logf("%s: the pool is gone", name)
	}
	framework.WaitAllocated(t, stays, gen.Pool("stays"), ipamv1alpha1.ReasonAllocationSucceeded)
}
