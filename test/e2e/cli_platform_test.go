package e2e

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/workspaces"
)

// Admins of the platform see what every tenant holds. A tenant sees only its own blocks.
func TestCLI_PlatformSeesAll(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.DefaultLength(28))
	admin := cli{s.platform.CLI(t, "ipam-class-admin", "ipam-shared-pool-admin", "ipam-tenant-viewer"), t}
	plain := cli{s.platform.CLI(t, "ipam-shared-pool-admin"), t}
	tenant := cli{s.tenant.CLI(t), t}
	admin.run("pool", "create", s.name, "--cidr", string(s.cidr), "--class", s.name, "--visibility", "platform").ends(0)
	block := strings.TrimSpace(tenant.ok("claim", "create", "web", "--class", s.name, "--quiet"))
	address := netip.MustParsePrefix(block).Addr().String()

	// The figures lag behind the blocks, so the test waits for them.
	shows(t, admin.ok("pool", "show", s.name), "16 taken")
	shows(t, admin.ok("pool", "show", s.name), block, "claim default/web of "+s.tenant.Path)
	admin.run("pool", "release", s.name, "--yes").ends(5).says("those of other workspaces release it there: claim default/web of " + s.tenant.Path)
	shows(t, admin.ok("address", "show", address), block, "claim default/web", s.tenant.Path, s.name)
	shows(t, admin.ok("address", "show", address, "-o", "jsonpath={.items[0].metadata.namespace}"), "default")
	shows(t, plain.ok("pool", "show", s.name), "others hold 16 addresses")
	shows(t, admin.ok("tenant", "list"), "TENANT", s.tenant.Path)
	shows(t, admin.ok("tenant", "list", "-o", "json"), s.tenant.Path, `"cluster"`)
	plain.run("tenant", "list").ends(4).says("ipam-tenant-viewer")
	tenant.run("tenant", "list").ends(4).says("in the workspace of the platform")
	plain.run("address", "show", address).ends(4).says("in pool "+s.name, "you see no holder of")
	shows(t, tenant.ok("address", "show", address), "claim default/web", s.name+" of "+s.platform.Path, s.tenant.Path)
	shows(t, admin.ok("pool", "tree", s.name), s.name, string(s.cidr))
	shows(t, admin.ok("class", "show", s.name), "ready pools that back it: 1", s.name)
	tenant.run("pool", "show", s.name).ends(4)
	for range 3 {
		tenant.run("claim", "create", "brief", "--class", s.name, "-q").ends(0)
		tenant.run("claim", "release", "brief").ends(0)
		if shown := admin.ok("pool", "show", s.name); strings.Contains(shown, "others hold") {
			t.Errorf("after a release the pool is shown as held by others:\n%s", shown)
		}
	}
}

// Two commands prepare the platform and the tenant, and may be repeated.
func TestCLI_InitAndBind(t *testing.T) {
	t.Parallel()
	framework.SharedPlatform(t)
	admin := cli{framework.AdminCLI(t, "root"), t}
	for range 2 {
		admin.run("init", "root:cli-platform").ends(0).says("is the platform")
		admin.run("tenant", "bind", "root:cli-team", "--platform", "root:cli-platform").ends(0).says("is a tenant of root:cli-platform")
	}
	tenant := cli{framework.AdminCLI(t, "root:cli-team"), t}
	tenant.run("claim", "create", "web", "--class", "none", "--wait=1s").ends(8).says("there is no answer yet")
	platform := cli{framework.AdminCLI(t, "root:cli-platform"), t}
	shows(t, platform.ok("version"), "Program", "Server", "root:cli-platform")
	shows(t, admin.ok("init", "--dry-run"), "kind: APIExport")
	shows(t, tenant.run("check").ends(8).Out, "binding      ok", "controller   failed", "is not answered")
}

// A tenant's user learns which rights are missing, and what the platform lacks.
func TestCLI_Check(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for who, c := range map[string]cli{
		"consumer": {s.tenant.CLI(t, "ipam-consumer", "ipam-viewer"), t}, "admin": {framework.AdminCLI(t, s.tenant.Path), t},
		"platform": {framework.AdminCLI(t, s.platform.Path), t},
	} {
		checks := c.ok("check")
		t.Logf("%s:\n%s", who, checks)
		c.ok("check", "--wait", "--timeout", "1m")
		shows(t, checks, "api          ok", "roles        ok", "controller   ok")
	}
	viewer := cli{s.tenant.CLI(t, "ipam-viewer"), t}
	shows(t, viewer.run("check").ends(3).Out, "roles        failed", "controller   skipped", "ipam-consumer")
	shows(t, viewer.run("check", "-o", "json").ends(3).Out, `"result": "failed"`)
	unbound := cli{framework.AdminCLI(t, "root"), t}
	unbound.run("check", "--wait", "--timeout", "1s").ends(8)
	unbound.run("claim", "list").ends(8).says("does not serve the IPAM API", "tenant bind")
	viewer.run("claim", "list", "--server", workspaces.At(s.tenant.Config(), s.platform.Path).Host).ends(3).says("forbidden")
	viewer.run("claim", "list", "--server", "https://127.0.0.1:1").ends(8)
	viewer.run("claim", "list", "--kubeconfig", "/nowhere").ends(1)
	shows(t, unbound.run("check").ends(8).Out, "api          failed    the IPAM API is not served here", "kubectl ipam tenant bind WORKSPACE binds it", "roles        skipped")
}

// Mistyped or forbidden arguments are refused before anything is created.
func TestCLI_BindRefusesMistakesBeforeItCreates(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	admin := cli{framework.AdminCLI(t, "root"), t}
	bind := []string{"tenant", "bind", "--platform", s.platform.Path}
	admin.run(append(bind, "root:cli-nope:x")...).ends(4).says("root:cli-nope does not exist", "--create-parents")
	admin.run("init", "root:cli-nope:x").ends(4).says("root:cli-nope does not exist")
	admin.run("tenant", "bind", "root:cli-nope", "--platform", "root:cli-none").ends(4).says("root:cli-none is not a platform", "kubectl ipam init")
	admin.run("tenant", "bind", "root:cli-nope", "--platform", s.tenant.Path).ends(4).says("is not a platform")

	c := cli{s.tenant.CLI(t), t}
	c.run(append(bind, "root:cli-nope")...).ends(3).says("cannot create resource", "hint: this needs the role cluster-admin in root:cli-nope", "ipam-bind")
	c.run(append(bind, s.tenant.Path)...).ends(3).says("you cannot create it in "+s.tenant.Path, "cluster-admin")
	c.run("init", s.platform.Path).ends(3).says("cluster-admin in " + s.platform.Path)
	c.run("controller-kubeconfig", s.platform.Path).ends(3).says("hint: this needs the right to create serviceaccounts/token")
	admin.run("controller-kubeconfig", s.tenant.Path).ends(4).says("is not a platform")
	if left, err := workspaces.Missing(t.Context(), framework.AdminConfig(t), "root:cli-nope"); err != nil || len(left) != 1 {
		t.Errorf("root:cli-nope is missing: %v, %v; want that nothing created it", left, err)
	}

	admin.run(append(bind, "root:cli-parent:x", "--create-parents")...).ends(0).says("creating workspace root:cli-parent", "creating workspace root:cli-parent:x")
}
