package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/workspaces"
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
	shows(t, c.ok("verify", "-o", "json"), `"claims": 2`, `"findings": []`)
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

// A claim that cannot be bound is corrected by the same command with --replace, which keeps
// off claims that are bound.
func TestCLI_ClaimReplaced(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Lengths{Min: 25, Max: 28}, gen.DefaultLength(26))
	s.pool(s.cidr)
	c := cli{s.tenant.CLI(t), t}
	framework.Eventually(t, "the class to be seen", func(context.Context) error {
		if !strings.Contains(c.ok("class", "list"), s.name) {
			return errors.New("it is not")
		}
		return nil
	})
	create := func(args ...string) ran {
		t.Helper()
		return c.run(append([]string{"claim", "create", "web"}, args...)...)
	}
	create("--class", s.name+"x").ends(4).says("ClassNotFound", `did you mean "`+s.name+`"?`, "--replace", "kubectl ipam claim release web")
	create("--class", s.name+"x", "--unmet-policy", "Refuse", "--replace").ends(4).says("is not created: ClassNotFound", `did you mean "`+s.name+`"?`)
	create("--class", s.name, "--length", "16").ends(6).says("PrefixLengthRejected", "--replace")
	create("--class", s.name, "--length", "28").ends(5).says("asks for something else", "--replace", "kubectl ipam claim release web")
	if got := create("--class", s.name, "--length", "28", "--replace", "-q"); got.Code != 0 || !strings.HasSuffix(got.Out, "/28\n") {
		t.Errorf("--replace ended with %d, %q and %q; want the corrected claim's /28", got.Code, got.Out, got.Err)
	}
	create("--class", s.name, "--length", "27", "--replace").ends(5).says("holds", "kubectl ipam claim release web")
}

// A retained block stays until it is given back as well.
func TestCLI_ClaimRetained(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.ownPool(gen.CIDR("192.0.2.0/24"))
	c := cli{s.tenant.CLI(t), t}
	create := []string{"claim", "create", "kept", "--pool", "own", "--length", "28", "--quiet", "--wait=5s"}
	c.run(append(create, "--reclaim-policy", "retain")...).ends(0)
	c.run("claim", "release", "kept", "--retained").ends(5).says("held by the claim default/kept")
	c.run("claim", "release", "kept").ends(0).says("--retained gives it back")
	record := gen.Allocation("kept", "own", "")
	framework.WaitFor(t, s.tenant, record, func(record *ipamv1alpha1.IPAllocation) error {
		if record.Spec.ClaimRef != nil {
			return errors.New("it is held by its claim")
		}
		return nil
	})
	c.run(create...).ends(5).says("AllocationRetained")
	c.run("claim", "release", "kept", "--retained").ends(0).says("192.0.2.0/28")
	c.run(append(create, "--wait=30s")...).ends(0)
}

// Nothing is stored in a dry run, and it prints what would be.
func TestCLI_DryRun(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	c := cli{s.tenant.CLI(t), t}
	for _, mode := range []string{"client", "server"} {
		shows(t, c.ok("claim", "create", "web", "--dry-run="+mode), "kind: IPClaim", "name: web")
	}
	c.run("claim", "create", "web", "--address", "10.0.0.1/8", "--dry-run=server").ends(6).says("10.0.0.0/8")
	c.run("claim", "list").ends(0).says("there are no claims")
}

// Who may not, and where there is nothing to claim, are told so.
func TestCLI_Refusals(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	c := cli{s.tenant.CLI(t), t}
	c.run("claim", "list", "--server", workspaces.At(s.tenant.Config(), s.platform.Path).Host).ends(3).says("forbidden")
	admin := cli{framework.AdminCLI(t, "root"), t}
	admin.run("claim", "list").ends(8).says("does not serve the IPAM API", "tenant bind")
	c.run("claim", "list", "--server", "https://127.0.0.1:1").ends(8)
	c.run("claim", "list", "--kubeconfig", "/nowhere").ends(1)
}
