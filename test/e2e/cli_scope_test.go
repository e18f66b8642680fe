package e2e

import (
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Where two networks have one address, the command line says whose is which.
func TestCLI_ScopeIsNamedBesideTheAddress(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	framework.Create(t, s.platform, gen.Class(s.name, gen.DefaultLength(32), gen.UniqueWithin("network")))
	pool := platformPool(s.name, s.cidr, s.name)
	framework.Create(t, s.platform, pool)
	framework.WaitAllocated(t, s.platform, pool, ipamv1alpha1.ReasonAllocationSucceeded)
	serves(t, s.tenant, gen.OfClass(s.name), gen.Within("network", "probe"))
	c := cli{s.tenant.CLI(t), t}
	var given []string
	for _, network := range []string{"blue", "green"} {
		given = append(given, strings.TrimSpace(c.ok("claim", "create", "of-"+network, "--class", s.name, "--scope", "network="+network, "--unmet-policy", "wait", "--wait", "--quiet")))
	}
	if given[0] != given[1] {
		t.Fatalf("the networks have %v; want one address twice", given)
	}
	address, _, _ := strings.Cut(given[0], "/")
	for _, said := range []string{
		c.ok("address", "show", address), c.ok("claim", "list"), c.ok("claim", "show", "of-blue") + c.ok("claim", "show", "of-green"), c.ok("export"),
	} {
		shows(t, said, "network=blue", "network=green", address)
	}
	shows(t, c.ok("address", "show", address), "Scope", "default/of-blue", "default/of-green")
	admin := cli{framework.AdminCLI(t, s.platform.Path), t}
	shows(t, admin.ok("address", "show", address), "network=blue", "network=green", s.tenant.Path)
	shows(t, admin.ok("pool", "show", s.name), "SCOPE", "network=blue", "network=green")
}
