package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A tenant makes pools, looks into them, and releases them with all that they hold.
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

// If a pool gets no block, the exit code shows the reason, and a message says what to do.
func TestCLI_PoolExplainsARefusal(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	c := cli{s.tenant.CLI(t), t}
	s.ownPool(gen.CIDR("192.0.2.0/24"))
	create := func(args ...string) ran {
		t.Helper()
		return c.run(append([]string{"pool", "create"}, args...)...)
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

// The owner of a shared pool sees the owner's blocks in it, and how much others hold.
func TestCLI_PoolShowsTheOwnersBlocksOfASharedPool(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	other := s.platform.Tenant(t)
	s.ownPool(gen.CIDR("192.0.2.0/24"), gen.Visible(ipamv1alpha1.VisibilityShared), gen.Consumers{ipamv1alpha1.Consumer(other.Path)})
	owner, guest := cli{s.tenant.CLI(t), t}, cli{other.CLI(t), t}
	owner.run("claim", "create", "ours", "--pool", "own", "--length", "28").ends(0)
	theirs := strings.TrimSpace(guest.ok("claim", "create", "secret", "--pool", "own", "--workspace", s.tenant.Path, "--length", "27", "--quiet"))
	framework.WaitWhile(t, s.tenant, gen.Pool("own"), "the pool does not count both", func(pool *ipamv1alpha1.IPPool) bool {
		return pool.Status.Capacity.Allocated != "48" || !meta.IsStatusConditionTrue(pool.Status.Conditions, ipamv1alpha1.ConditionInUse)
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
	owner.run("pool", "release", "own", "--cascade", "--yes", "--wait=10s").ends(5).says("in use")
}

// planFile returns a file of that name with this text.
func planFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// versions returns the resource versions of all pools and claims of the tenant.
func (s scene) versions() string {
	s.Helper()
	pools, claims := &ipamv1alpha1.IPPoolList{}, &ipamv1alpha1.IPClaimList{}
	for _, list := range []client.ObjectList{pools, claims} {
		must.Do(s, s.tenant.List(s.Context(), list))
	}
	text := ""
	for _, pool := range pools.Items {
		text += fmt.Sprintf("pool %s %d\n", pool.Name, pool.Generation)
	}
	for _, claim := range claims.Items {
		text += fmt.Sprintf("claim %s %s %s %s\n", claim.Name, claim.UID, claim.ResourceVersion, claim.Status.AllocatedCIDR)
	}
	return text
}

const addressPlan = `kind,name,cidr,labels
pool,dc,10.200.0.0/16,site=fra
exclusion,printers,10.200.9.0/24,
claim,web,10.200.0.0/24,team=web
claim,vip,10.200.1.7,
claim,,10.200.64.0/20,
`

// An import creates a plan as it is written, once. An export is imported elsewhere unchanged.
func TestCLI_Import(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	c := cli{s.tenant.CLI(t), t}
	file := planFile(t, "plan.csv", addressPlan)

	shows(t, c.ok("import", file, "--dry-run"), "LINE", "dc", "10.200.64.0/20", "new")
	if there := s.versions(); there != "" {
		t.Fatalf("after a dry run there are\n%s", there)
	}
	first := c.run("import", file).ends(0)
	if !strings.Contains(first.Err, "4 created") {
		t.Errorf("import says %q; want 4 created", first.Err)
	}
	if got := c.ok("claim", "show", "vip", "-o", "jsonpath={.status.address} {.status.poolRef.name}"); got != "10.200.1.7 dc" {
		t.Errorf("vip has %q", got)
	}
	shows(t, c.ok("address", "show", "10.200.9.1"), "excluded in pool dc")
	pool := gen.Pool("dc")
	framework.WaitFor(t, s.tenant, pool, func(*ipamv1alpha1.IPPool) error { return nil })
	if len(pool.Spec.ExcludedCIDRs) != 1 || pool.Spec.ExcludedCIDRs[0] != "10.200.9.0/24" {
		t.Errorf("the pool excludes %v", pool.Spec.ExcludedCIDRs)
	}

	framework.WaitBound(t, s.tenant, gen.Claim("web"), gen.Claim("vip"), gen.Claim("net-10-200-64-0-20"))
	there := s.versions()
	second := c.run("import", file).ends(0)
	if !strings.Contains(second.Err, "4 unchanged, nothing to do") || strings.Contains(second.Out, "created") {
		t.Errorf("the second import says %q and %q", second.Err, second.Out)
	}
	c.run("claim", "create", "any", "--pool", "dc", "--length", "28", "-q").ends(0)
	framework.WaitBound(t, s.tenant, gen.Claim("any"))
	with := s.versions()
	for _, form := range []string{"yaml", "csv", "json"} {
		exported := planFile(t, "plan."+form, c.ok("export", "-A", "-o", form))
		if again := c.run("import", exported).ends(0); !strings.Contains(again.Err, "5 unchanged, nothing to do") {
			t.Errorf("importing the export as %s says %q and %s", form, again.Err, again.Out)
		}
	}
	if now := s.versions(); now != with || !strings.HasPrefix(there, "pool dc") {
		t.Errorf("importing again has changed\n%s\nto\n%s", with, now)
	}

	elsewhere := cli{s.platform.Tenant(t).CLI(t), t}
	for _, form := range []string{"csv", "yaml"} {
		exported := c.ok("export", "-o", form)
		elsewhere.run("import", planFile(t, "plan."+form, exported)).ends(0)
		if got := elsewhere.ok("export", "-o", form); got != exported {
			t.Errorf("elsewhere the plan is\n%s\nwant\n%s", got, exported)
		}
	}
}

// A plan that contradicts itself, or existing objects, is refused as a whole. The errors name its lines.
func TestCLI_ImportRefusesAContradictoryPlan(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.ownPool(gen.CIDR("10.200.0.0/16"))
	c := cli{s.tenant.CLI(t), t}
	c.run("claim", "create", "taken", "--pool", "own", "--address", "10.200.0.0/24").ends(0)
	there := s.versions()
	for name, test := range map[string]struct {
		plan string
		code int
		says []string
	}{
		"wrong by itself":  {"kind,name,cidr,pool\nclaim,a,10.200.1.0/24,own\nclaim,b,10.0.0.0/33,own\n", 6, []string{".csv:3: cidr: 10.0.0.0/33 has no such prefix length", "nothing is imported"}},
		"a pool overlaps":  {"kind,name,cidr\npool,dc,10.200.4.0/24\nclaim,a,10.200.4.0/28\n", 5, []string{".csv:2: pool dc (10.200.4.0/24) overlaps pool own (10.200.0.0/16)"}},
		"a pool differs":   {"kind,name,cidr,class\npool,own,10.200.0.0/16,x\n", 5, []string{".csv:2: pool own is there, and spec.classNames is missing"}},
		"a claim differs":  {"kind,name,cidr,pool\nclaim,taken,10.200.1.0/24,own\n", 5, []string{`.csv:2: claim default/taken is there, and spec.address is "10.200.0.0/24"`}},
		"an address used":  {"kind,name,cidr,pool\nclaim,a,10.200.1.0/24,own\nclaim,b,10.200.0.7,own\n", 5, []string{".csv:3: claim default/b: AddressInUse"}},
		"no such pool":     {"kind,name,cidr,pool\nclaim,a,10.200.1.0/24,owm\n", 4, []string{".csv:2: claim default/a: PoolNotFound"}},
		"no namespace":     {"kind,name,namespace,cidr,pool\nclaim,a,nowhere,10.200.1.0/24,own\n", 4, []string{`.csv:2: claim nowhere/a`, `"nowhere" not found`}},
		"a bad label":      {"kind,name,cidr,pool,labels\nclaim,a,10.200.1.0/24,own,site=f/r/a\n", 6, []string{".csv:2: claim default/a"}},
		"of another class": {"kind,name,cidr,class\nclaim,a,10.200.1.0/24,nobodys\n", 4, []string{".csv:2: claim default/a: ClassNotFound"}},
	} {
		c.run("import", planFile(t, "plan.csv", test.plan)).ends(test.code).says(test.says...)
		if now := s.versions(); now != there {
			t.Errorf("%s: the refused plan has changed\n%s\nto\n%s", name, there, now)
		}
	}
	got := c.run("import", planFile(t, "plan.csv", "kind,name,cidr,pool\nclaim,b,10.200.0.7,own\n"), "-o", "json").ends(5)
	shows(t, got.Out, `"line": 2`, "AddressInUse")
}
