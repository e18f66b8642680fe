package e2e

import (
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A tenant claims, looks and gives back; a script gets the CIDR and nothing else.
func TestCLI_Claim(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	s.pool(s.cidr)
	c := cli{s.tenant.CLI(t), t}

	first := c.ok("claim", "create", "web", "--class", s.name, "--length", "/28", "--quiet")
	if again := c.ok("claim", "create", "web", "--class", s.name, "--length", "28", "--quiet"); again != first || !strings.HasSuffix(first, "/28\n") {
		t.Errorf("the same request got %q, then %q; want the same /28 on a line", first, again)
	}
	c.run("claim", "create", "web", "--class", s.name, "--length", "27").ends(5).says("asks for something else", "hint:")
	block := strings.TrimSpace(first)

	shows(t, c.ok("claim", "list"), "NAME", "web", s.name, block, "Bound", "AllocationSucceeded")
	shows(t, c.ok("claim", "show", "web"), "default/web", block, "Bound")
	if got := c.ok("claim", "show", "web", "-o", "jsonpath={.status.allocatedCIDR}"); got != block {
		t.Errorf("jsonpath shows %q; want %q", got, block)
	}
	if got := c.ok("claim", "list", "-o", "name"); got != "ipclaim.ipam.miloapis.com/web\n" {
		t.Errorf("-o name shows %q", got)
	}
	shows(t, c.ok("claim", "list", "-A", "-o", "wide"), "NAMESPACE", "MESSAGE", s.platform.Path)
	shows(t, c.ok("claim", "list", "-o", "json"), `"kind": "IPClaimList"`, block)
	shows(t, c.ok("claim", "list", "-o", "yaml"), "kind: IPClaim", block)
	c.run("claim", "create", "owned", "--class", s.name, "--length", "27", "--labels", "team=web", "--owner", "Service/default/web").ends(0)
	shows(t, c.ok("claim", "list", "-l", "team=web", "-o", "csv"), "NAME,CLASS,POOL", "owned,"+s.name, "Service/default/web")
	if got := c.ok("claim", "list", "--sort-by", ".spec.prefixLength", "-o", "jsonpath={.items[*].metadata.name}"); got != "owned web" {
		t.Errorf("sorted by length the claims are %q; want owned, then web", got)
	}
	c.run("claim", "release", "owned").ends(0)
	if names := c.ok("__complete", "claim", "show", ""); !strings.HasPrefix(names, "web\n") {
		t.Errorf("the names completed are %q", names)
	}

	c.run("claim", "release", "web").ends(0).says("released", block)
	framework.WaitGone(t, s.tenant, gen.Claim("web"))
	c.run("claim", "show", "web").ends(4).says(`"web" not found`)
	c.run("claim", "list").ends(0).says("there are no claims")
	c.run("claim", "release", "web").ends(4)
	c.run("claim", "release", "web", "--ignore-not-found").ends(0)
}

// What keeps a claim from its block is told by the exit code, and said with what to do.
func TestCLI_ClaimRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Lengths{Min: 25, Max: 28}, gen.DefaultLength(26))
	c := cli{s.tenant.CLI(t), t}
	create := func(args ...string) ran {
		t.Helper()
		return c.run(append([]string{"claim", "create"}, args...)...)
	}
	create("early", "--class", s.name, "--wait=5s").ends(8).says("NoOfferingPool", "hint:")
	c.run("claim", "release", "early").ends(0).says("held nothing")
	s.ownPool(gen.CIDR("192.0.2.0/25"), gen.Backs(s.name))
	create("all", "--pool", "own", "--length", "25").ends(0)
	create("--class", s.name, "--wait=5s").ends(7).says("PoolExhausted", "own")
	// What does not exist is not waited for, unless that is asked for.
	create("--class", "nobodys", "--wait=1s").ends(4).says("ClassNotFound", "nobodys")
	create("--class", "nobodys").ends(4).says("ClassNotFound", "nobodys")
	create("--pool", "owm", "--length", "28").ends(4).says("PoolNotFound", `did you mean "own"?`)
	create("--selector", "site=nowhere", "--length", "28").ends(4).says("PoolNotFound", "deprecated")
	create("--class", s.name, "--length", "16").ends(6).says("PrefixLengthRejected", "/25 to /28")
	create("--class", s.name, "--family", "ipv6").ends(6).says("FamilyMismatch")
	create("--pool", "own", "--address", "192.0.2.7", "--wait=5s").ends(5).says("AddressInUse")
	create("--pool", "own", "--address", "198.51.100.1").ends(6).says("AddressOutOfRange")
	create("--address", "192.0.2.300").ends(6).says("write an address such as")

	create("--class", s.name, "--pool", "own").ends(2).says("class", "pool", "--help")
	create("--length", "129").ends(2).says("prefix length")
	create("--workspace", "root:net").ends(2).says("--pool or --selector")
	create("--family", "4").ends(2).says("IPv4 or IPv6")
	create("-o", "xml").ends(2).says("write one of table, wide")
	c.run("claim", "crate").ends(2).says(`did you mean "create"?`)
}
