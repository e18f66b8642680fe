//go:build long

package e2e

import (
	"fmt"
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
		framework.Create(t, tenant, pool)
		framework.WaitAllocated(t, tenant, pool, ipamv1alpha1.ReasonAllocationSucceeded)
		platform.KillController(t)
		strip(t, tenant.Owner(t), pool)
		leave(tenant)
		platform.StartController(t)
		waitPools(t, platform, 1)
		t.Logf("%s: the pool is gone", name)
	}
	framework.WaitAllocated(t, stays, gen.Pool("stays"), ipamv1alpha1.ReasonAllocationSucceeded)
}

// A tenant does so with 200 pools. None is left in the ledger, and their address space can be used again.
func TestLong_PoolStripped200Times(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t).Replica(t, "swept", sweeping...)
	platform.StartController(t)
	owner := platform.Tenant(t).Owner(t)
	t.Run("200 pools", func(t *testing.T) {
		for quarter := range 4 {
			t.Run(fmt.Sprint(quarter), func(t *testing.T) {
				t.Parallel()
				for i := 50 * quarter; i < 50*(quarter+1); i++ {
					pool := gen.Pool(fmt.Sprint("loop-", i), gen.CIDR(ipamv1alpha1.CIDR(fmt.Sprintf("172.16.%d.0/24", i))))
					framework.Create(t, owner, pool)
					framework.WaitAllocated(t, owner, pool, ipamv1alpha1.ReasonAllocationSucceeded)
					strip(t, owner, pool)
				}
			})
		}
	})
	waitPools(t, platform, 0)
	again := gen.Pool("again", gen.CIDR("172.16.0.0/12"))
	framework.Create(t, owner, again)
	framework.WaitAllocated(t, owner, again, ipamv1alpha1.ReasonAllocationSucceeded)
	platform.WaitVerified(t)
}
