//go:build long

package e2e

import (
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// The same with claims that are bound each time.
func TestLong_ReleaseBoundOverAndOver(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name, cidr := framework.Name(t), platform.CIDR(t)
	pool := offer(t, platform, name, cidr)
	tenant := platform.Tenant(t)

	for range 50 {
		claim := gen.Claim("web", gen.OfClass(name), gen.Length(26))
		framework.Create(t, tenant, claim)
		framework.WaitBound(t, tenant, claim)
		framework.Delete(t, tenant, claim)
	}
	waitHeld(t, platform, pool, size())
	waitUnrecorded(t, tenant, "web")
}
