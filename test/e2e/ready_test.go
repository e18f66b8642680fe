package e2e

import (
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// The controller of a platform that nobody has bound yet is ready, and serves the first
// tenant when it comes.
func TestReady_BeforeFirstTenant(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	for _, path := range []string{"/readyz", "/healthz"} {
		if err := platform.Probe(t.Context(), path); err != nil {
			t.Errorf("Probe: %v", err)
		}
	}
	name, cidr := framework.Name(t), platform.CIDR(t)
	offer(t, platform, name, cidr)

	tenant := platform.Tenant(t)
	claim := gen.Claim("web", gen.OfClass(name), gen.Length(28))
	framework.Create(t, tenant, claim)
	framework.WaitBound(t, tenant, claim)
	disjointIn(t, cidr, blockOf(t, claim))
}
