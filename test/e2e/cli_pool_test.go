package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A tenant makes pools, looks into them, and gives them up with all they hold.
func TestCLI_Pool(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	c := cli{s.tenant.CLI(t), t}
	create := []string{"pool", "create", "lab", "--cidr", "192.0.2.0/24", "--leading", "1", "--unit-length", "28", "--quiet"}
	for range 2 {
		if got := c.ok(create...); got != "192.0.2.0/24\n" {
			t.Errorf("the pool has %q", got)
		}
	}
	c.run(append(create, "--max-length", "28")...).ends(5).says("asks for something else")
	c.run("pool", "create", "east", "--parent", "lab", "--length", "26").ends(0)
	c.run("claim", "create", "web", "--pool", "lab", "--length", "28").ends(0)
	c.run("claim", "create", "db", "--pool", "east", "--length", "28").ends(0)
	framework.WaitCondition(t, s.tenant, gen.Pool("lab"), ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonInUse)

	shows(t, c.ok("pool", "list"), "lab", "192.0.2.0/24", "east", "LARGEST FREE")
	if names := c.ok("pool", "list", "-o", "name"); !strings.Contains(names, "ippool.ipam.miloapis.com/east\n") {
		t.Errorf("-o name shows %q", names)
	}
	shows(t, c.ok("pool", "next", "lab", "--length", "28", "--count", "2"), "192.0.2.32/28\n192.0.2.48/28\n")
	if got := c.RunIn(t, framework.Kubectl(t), "__complete", "ipam", "pool", "show", ""); !strings.Contains(got.Out, "lab\n") {
		t.Errorf("kubectl completes %q and says %q", got.Out, got.Err)
	}
	c.run("pool", "next", "lab", "--length", "25").ends(0)
	c.run("pool", "next", "east", "--length", "26").ends(7).says("has no free /26")
	c.run("pool", "next", "nobodys", "--length", "28").ends(4)

	shows(t, c.ok("pool", "tree"), "lab", "└─ east", "%", "░")
	framework.Eventually(t, "the figures of the pool to follow", func(context.Context) error {
		if !strings.Contains(c.ok("pool", "show", "lab"), "96 taken") {
			return errors.New("they do not yet")
		}
		return nil
	})
	shows(t, c.ok("pool", "show", "lab"), "×", "█", "claim default/web", "pool east", "160 free")

	c.run("pool", "release", "lab", "--yes").ends(5).says("in use", "claim default/web", "--cascade")
	c.run("pool", "release", "lab", "--cascade").ends(9).says("stdin is not a terminal: pass --yes", "--yes", "1 carved from it")
	c.run("pool", "release", "lab", "--cascade", "--yes").ends(0).says("released")
	framework.WaitGone(t, s.tenant, gen.Pool("lab"))
	framework.WaitGone(t, s.tenant, gen.Pool("east"))
	framework.WaitGone(t, s.tenant, gen.Claim("web"))
	c.run("pool", "show", "lab").ends(4)
	c.run("pool", "tree").ends(0).says("there are no pools")
}

// What keeps a pool from its block is told by the exit code, and said with what to do.
func TestCLI_PoolRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	c := cli{s.tenant.CLI(t), t}
	s.ownPool(gen.CIDR("192.0.2.0/24"))
	create := func(args ...string) ran {
		t.Helper()
		return c.run(append([]string{"pool", "create", "--wait=5s"}, args...)...)
	}
	create("a", "--cidr", "10.0.0.1/8").ends(6).says("write 10.0.0.0/8")
	create("b", "--cidr", "192.0.0.0/16").ends(5).says("Overlap", "own", "addressDomain")
	create("c", "--parent", "own", "--length", "20").ends(6).says("PrefixLengthRejected", "the pool stays: --replace")
	create("c", "--parent", "own", "--length", "26").ends(5).says("spec.prefixLength is 20, not 26", "--replace")
	create("d", "--parent", "owm", "--length", "28").ends(4).says("PoolNotFound", `did you mean "own"?`)
	create("c", "--parent", "own", "--length", "26", "--replace").ends(0)
	create("c", "--parent", "own", "--length", "27", "--replace").ends(5).says("holds 192.0.2.0/26")
	c.run("pool", "release", "c", "d", "--yes").ends(0)
	create("e", "--cidr", "10.0.0.0/8", "--visibility", "platform").ends(6).says("visibility")
	create("own", "--cidr", "192.0.2.0/25").ends(5).says("asks for something else")
	create("own", "--parent", "own", "--length", "28").ends(6).says("may not be its own parent")
	c.run("pool", "show", "nobodys").ends(4)
	c.run("pool", "release", "nobodys", "--yes").ends(4)

	viewer := cli{s.tenant.CLI(t, "ipam-viewer"), t}
	viewer.run("pool", "create", "f", "--cidr", "10.0.0.0/8").ends(3).says("forbidden")
	viewer.run("pool", "release", "own", "--yes").ends(3).says("forbidden")
	viewer.run("claim", "create", "--pool", "own", "--length", "28").ends(3).says("forbidden", "ipam-consumer")
	viewer.ok("pool", "show", "own")
}

// The owner of a shared pool sees his own blocks on it, and how much the others hold.
func TestCLI_PoolShared(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	other := s.platform.Tenant(t)
	s.ownPool(gen.CIDR("192.0.2.0/24"), gen.Visible(ipamv1alpha1.VisibilityShared), gen.Consumers{ipamv1alpha1.Consumer(other.Path)})
	owner, guest := cli{s.tenant.CLI(t), t}, cli{other.CLI(t), t}
	owner.run("claim", "create", "ours", "--pool", "own", "--length", "28").ends(0)
	theirs := strings.TrimSpace(guest.ok("claim", "create", "secret", "--pool", "own", "--workspace", s.tenant.Path, "--length", "27", "--quiet"))
	framework.WaitFor(t, s.tenant, gen.Pool("own"), func(pool *ipamv1alpha1.IPPool) error {
		if pool.Status.Capacity.Allocated != "48" || !meta.IsStatusConditionTrue(pool.Status.Conditions, ipamv1alpha1.ConditionInUse) {
			return errors.New("the pool does not count both")
		}
		return nil
	})
	shown := owner.ok("pool", "show", "own")
	shows(t, shown, "claim default/ours", "others hold 32 addresses")
	if strings.Contains(shown, "secret") || strings.Contains(shown, theirs) {
		t.Errorf("the owner is shown what another workspace holds:\n%s", shown)
	}
	shows(t, guest.ok("pool", "show", "own", "--workspace", s.tenant.Path), "claim default/secret", theirs, "not shown to you")
	guest.run("pool", "show", "own").ends(4)
	guest.run("pool", "next", "own", "--workspace", s.tenant.Path, "--length", "28").ends(4)
	owner.ok("pool", "next", "own", "--length", "28")
	owner.run("address", "show", theirs).ends(4).says("free, or allocated to another workspace, in pool own", "you see no holder of")
	shows(t, guest.ok("address", "show", theirs), "claim default/secret", "own of "+s.tenant.Path)
	owner.run("pool", "release", "own", "--cascade", "--yes", "--wait=2s").ends(5).says("in use")
}
