//go:build long

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// The time is in the ledger: it passes whether a controller runs or not.
func TestLong_CooldownAcrossRestarts(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	name := framework.Name(t)
	framework.Create(t, platform, gen.Class(name, gen.Cooldown("10s")))
	pool := platformPool(name, part(platform.CIDR(t), 28), name)
	framework.Create(t, platform, pool)
	framework.WaitAllocated(t, platform, pool, ipamv1alpha1.ReasonAllocationSucceeded)
	tenant := platform.Tenant(t)
	first := bindSome(t, tenant, name, "first", 1)[0]
	framework.Delete(t, tenant, first)
	free := waitCooling(t, platform, pool)
	second := gen.Claim("second", gen.OfClass(name), gen.Length(28))
	framework.Create(t, tenant, second)
	framework.WaitAllocated(t, tenant, second, ipamv1alpha1.ReasonPoolExhausted)
	platform.KillController(t)
	platform.StartController(t)
	framework.WaitBound(t, tenant, second)
	wantNotBefore(t, second, free)

	framework.Delete(t, tenant, second)
	free = waitCooling(t, platform, pool)
	platform.KillController(t)
	framework.Eventually(t, "the cooldown to be over", func(context.Context) error {
		if time.Now().Before(free) {
			return fmt.Errorf("it is not %s yet", free)
		}
		return nil
	})
	platform.StartController(t)
	waitNotCooling(t, platform, pool)
	third := bindSome(t, tenant, name, "third", 1)[0]
	if blockOf(t, third) != blockOf(t, first) {
		t.Errorf("the claim has %s, want %s", blockOf(t, third), blockOf(t, first))
	}
	platform.WaitVerified(t)
}
