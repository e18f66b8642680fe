package e2e

import (
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A user exports networks of one CIDR. Those that claims hold come back with their CIDRs, subnets and hosts, in this
// workspace and in another one. A network that no claim holds is named, and left out.
func TestCLI_ExportBringsNetworksBack(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	vpc, sub, host := s.name+"-vpc", s.name+"-sub", s.name+"-host"
	waits := gen.Unmet(ipamv1alpha1.UnmetWait) // a busy kcp may not answer
	framework.Create(t, s.platform,
		gen.Class(vpc, waits, gen.DefaultLength(20), gen.PoolPer("project", "network"), gen.UniqueWithin("network")),
		gen.Class(sub, waits, gen.DefaultLength(24), gen.Below(vpc), gen.PoolPer("project", "network", "subnet")),
		gen.Class(host, waits, gen.DefaultLength(32), gen.Below(sub)))
	pool := platformPool(vpc, "10.120.0.0/16", vpc)
	pool.Spec.AddressDomain = s.name
	framework.Allocate(t, s.platform, pool)
	serves(t, s.tenant, gen.OfClass(host), gen.Within("network", "probe", "subnet", "probe"))
	c := cli{s.tenant.CLI(t), t}
	for _, network := range []string{"red", "blue"} {
		in := "network=" + network
		c.run("claim", "create", network, "--class", vpc, "--scope", in, "--target", "range", "--address", "10.120.32.0/20").ends(0)
		c.run("claim", "create", network+"-app", "--class", sub, "--scope", in+",subnet=app", "--target", "range", "--address", "10.120.37.0/24").ends(0)
		c.run("claim", "create", network+"-web", "--class", host, "--scope", in+",subnet=app", "--address", "10.120.37.9").ends(0)
	}
	shows(t, c.ok("network", "list"), "network=red,subnet=app", "10.120.37.0/24", "default/blue-app")
	for _, form := range []string{"yaml", "csv"} {
		exported := c.run("export", "-o", form).ends(0)
		if exported.Err != "" {
			t.Errorf("the export as %s says %q; want nothing to be left out", form, exported.Err)
		}
		file := planFile(t, "plan."+form, exported.Out)
		if again := c.run("import", file).ends(0); !strings.Contains(again.Err, "6 unchanged, nothing to do") {
			t.Errorf("the import of the same networks says %q; want that they are there", again.Err)
		}
		c.run("claim", "release", "red", "blue", "--cascade").ends(0)
		c.run("import", file).ends(0)
		if got := c.ok("export", "-o", form); got != exported.Out {
			t.Errorf("as %s the networks come back as\n%s\nwant\n%s", form, got, exported.Out)
		}
		elsewhere := cli{s.platform.Tenant(t).CLI(t), t}
		elsewhere.run("import", file).ends(0)
		if got := elsewhere.ok("export", "-o", form); got != exported.Out {
			t.Errorf("elsewhere they are, as %s,\n%s\nwant\n%s", form, got, exported.Out)
		}
	}
	c.run("claim", "create", "loose", "--class", host, "--scope", "network=green,subnet=app").ends(0)
	if said := c.run("export").ends(0).Err; !strings.Contains(said, "left out: claim default/loose") || !strings.Contains(said, "a claim with the target range holds it") {
		t.Errorf("the export says %q; want that loose is left out, and what would keep its network", said)
	}
}
