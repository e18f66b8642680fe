package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// ran is the result of a command line, for checks.
type ran struct {
	framework.Ran
	t    *testing.T
	args []string
}

// cli runs command lines as one user.
type cli struct {
	framework.CLI
	t *testing.T
}

func (c cli) run(args ...string) ran {
	c.t.Helper()
	return ran{c.Run(c.t, args...), c.t, args}
}

// ok fails the test unless a command succeeds, and returns its output.
func (c cli) ok(args ...string) string {
	c.t.Helper()
	return c.run(args...).ends(0).Out
}

// ends fails the test unless the command has ended with this code.
func (r ran) ends(code int) ran {
	r.t.Helper()
	if r.Code != code {
		r.t.Fatalf("kubectl-ipam %s ended with %d; want %d\nstdout: %s\nstderr: %s", strings.Join(r.args, " "), r.Code, code, r.Out, r.Err)
	}
	return r
}

// says fails the test unless the command has written all these words to stderr, and nothing to stdout.
func (r ran) says(words ...string) {
	r.t.Helper()
	for _, w := range words {
		if !strings.Contains(r.Err, w) {
			r.t.Errorf("kubectl-ipam %s says %q; want it to say %q", strings.Join(r.args, " "), r.Err, w)
		}
	}
	if r.Out != "" {
		r.t.Errorf("kubectl-ipam %s gives the data %q", strings.Join(r.args, " "), r.Out)
	}
}

// shows fails the test unless data contains all these words.
func shows(t *testing.T, data string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(data, w) {
			t.Errorf("the data has no %q:\n%s", w, data)
		}
	}
}

// A tenant claims, lists and releases; a script gets only the CIDR.
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

// If a claim gets no block, the exit code shows the reason, and a message says what to do.
func TestCLI_ClaimExplainsARefusal(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Lengths{Min: 25, Max: 28}, gen.DefaultLength(26))
	c := cli{s.tenant.CLI(t), t}
	create := func(args ...string) ran {
		t.Helper()
		return c.run(append([]string{"claim", "create"}, args...)...)
	}
	create("early", "--class", s.name, "--wait=15s").ends(8).says("NoOfferingPool", "hint:")
	c.run("claim", "release", "early").ends(0).says("held nothing")
	s.ownPool(gen.CIDR("192.0.2.0/25"), gen.Backs(s.name))
	create("all", "--pool", "own", "--length", "25").ends(0)
	create("--class", s.name, "--wait=15s").ends(7).says("PoolExhausted", "own")
	// The command waits for a class that does not exist only if it is told to.
	create("--class", "nobodys", "--wait=15s").ends(4).says("ClassNotFound", "nobodys")
	create("--class", "nobodys").ends(4).says("ClassNotFound", "nobodys")
	create("--pool", "owm", "--length", "28").ends(4).says("PoolNotFound", `did you mean "own"?`)
	create("--class", s.name, "--length", "16").ends(6).says("PrefixLengthRejected", "/25 to /28")
	create("--class", s.name, "--family", "ipv6").ends(6).says("FamilyMismatch")
	create("--pool", "own", "--address", "192.0.2.7", "--wait=15s").ends(5).says("AddressInUse")
	create("--pool", "own", "--address", "198.51.100.1").ends(6).says("AddressOutOfRange")
	create("--address", "192.0.2.300").ends(6).says("write an address such as")

	create("--class", s.name, "--pool", "own").ends(2).says("class", "pool", "--help")
	create("--length", "129").ends(2).says("prefix length")
	create("--workspace", "root:net").ends(2).says("give --pool with it")
	create("--family", "4").ends(2).says("IPv4 or IPv6")
	create("-o", "xml").ends(2).says("write one of table, wide")
	c.run("claim", "crate").ends(2).says(`did you mean "create"?`)
}

// as runs a command as another user, whom an admin impersonates. That user has no rights but the granted ones.
func (c cli) as(user string, args ...string) ran {
	c.t.Helper()
	return c.run(append(args, "--as", user)...)
}

// soon waits until a user's command succeeds: the server learns of a role binding a moment after it has stored it.
func (c cli) soon(user string, args ...string) {
	c.t.Helper()
	framework.Eventually(c.t, fmt.Sprintf("%s to succeed for %s", args, user), func(context.Context) error {
		if got := c.as(user, args...); got.Code != 0 {
			return fmt.Errorf("it ends with %d: %s", got.Code, got.Err)
		}
		return nil
	})
}

// One command lets a tenant's user in and allows the user to claim. It can be repeated.
func TestCLI_Grant(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.DefaultLength(28))
	s.pool(s.cidr)
	admin := cli{framework.AdminCLI(t, s.tenant.Path), t}
	alice, bob := "alice-"+s.name, "bob-"+s.name
	admin.as(alice, "claim", "list").ends(3).says("hint: you cannot enter this workspace", "kubectl ipam grant ROLE --user "+alice)
	shows(t, admin.as(alice, "check").ends(3).Out, "server       failed", "it answers", "binding      skipped   you cannot enter")

	shows(t, admin.ok("grant", "ipam-consumer", "--user", alice, "--dry-run"), "system:kcp:workspace:access", "name: ipam-consumer", alice)
	admin.as(alice, "claim", "list").ends(3)
	for range 2 {
		admin.run("grant", "ipam-consumer", "--user", alice).ends(0).says("user "+alice+" can write claims", "clusterrolebinding/ipam:consumer:user:"+alice)
	}
	admin.soon(alice, "claim", "create", "web", "--class", s.name)
	admin.as(alice, "pool", "create", "own", "--cidr", "192.0.2.0/24").ends(3).says("can run kubectl ipam grant ipam-pool-admin --user " + alice)
	admin.as(alice, "class", "create", "own", "--family", "IPv4").ends(3).says("the platform's admins")
	shows(t, admin.as(alice, "check").ends(0).Out, "roles        ok")

	admin.run("grant", "ipam-consumer", "--user", bob, "--namespace", "default").ends(0)
	admin.soon(bob, "claim", "create", "bob", "--class", s.name)
	admin.soon(bob, "class", "show", s.name)
	admin.as(bob, "claim", "list", "--namespace", "kube-system").ends(3).says("kubectl ipam grant ipam-viewer --user " + bob)
	admin.run("grant", "ipam-class-admin", "--user", bob).ends(4).says("there is no role", "ipam-consumer")
	admin.run("grant", "ipam-pool-admin", "--user", bob, "--namespace", "default").ends(2)
	cli{s.tenant.CLI(t, "ipam-consumer"), t}.run("grant", "ipam-consumer", "--user", bob).ends(3).says("hint: this needs the right")
	unbound := cli{framework.AdminCLI(t, "root"), t}
	unbound.run("grant", "ipam-consumer", "--user", bob).ends(8).says("tenant bind")
}

// The users of a platform have their own roles, and hints name no other roles.
func TestCLI_GrantGivesThePlatformsRoles(t *testing.T) {
	t.Parallel()
	platform, name := framework.SharedPlatform(t), framework.Name(t)
	admin := cli{framework.AdminCLI(t, platform.Path), t}
	carol, dave := "carol-"+name, "dave-"+name
	admin.run("grant", "ipam-consumer", "--user", carol).ends(4).says("give one of ipam-tenant-viewer, ipam-class-admin, ipam-shared-pool-admin")
	admin.run("grant", "ipam-tenant-viewer", "--user", carol).ends(0)
	admin.run("grant", "ipam-class-admin", "--user", dave).ends(0)
	admin.soon(carol, "pool", "list")
	admin.as(carol, "pool", "create", name, "--cidr", string(platform.CIDR(t))).ends(3).says("grant ipam-shared-pool-admin --user " + carol)
	admin.as(carol, "class", "create", name, "--family", "IPv4").ends(3).says("grant ipam-class-admin --user " + carol)
	admin.as(carol, "claim", "create", name, "--length", "28").ends(3).says("claim in the workspace of a tenant")
	shows(t, admin.as(carol, "check").ends(0).Out, "you can list ipclaims on the platform")
	admin.soon(dave, "class", "create", name, "--family", "IPv4", "--wait", "0")
}
