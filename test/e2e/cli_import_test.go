package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// planFile is a file of that name with some text.
func planFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// versions are the resource versions of all pools and claims that a tenant has.
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

// A plan is created as it is written, once, and what is exported is imported elsewhere as it was.
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

// A plan that contradicts itself or what is there is refused as a whole, by its lines.
func TestCLI_ImportRefused(t *testing.T) {
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
		"a pool differs":   {"kind,name,cidr,class\npool,own,10.200.0.0/16,x\n", 5, []string{".csv:2: pool own is there, and spec.classNames is nothing"}},
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
