package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// as runs a command as a user with no rights but granted ones, by way of an admin with the right to impersonate.
func (c cli) as(user string, args ...string) ran {
	c.t.Helper()
	return c.run(append(args, "--as", user)...)
}

// soon waits until a user's command succeeds: the server learns of a binding a moment after it was stored.
func (c cli) soon(user string, args ...string) {
	c.t.Helper()
	framework.Eventually(c.t, fmt.Sprintf("%s to succeed for %s", args, user), func(context.Context) error {
		if got := c.as(user, args...); got.Code != 0 {
			return fmt.Errorf("it ends with %d: %s", got.Code, got.Err)
		}
		return nil
	})
}

// A tenant's user is let in and may claim after one command, which can be repeated.
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

// The users of a platform have roles of their own, and hints name no others.
func TestCLI_GrantOnThePlatform(t *testing.T) {
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
