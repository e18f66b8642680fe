package page_test

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page"
	"github.com/kcp-ipam/ipam/internal/lookup"
	"github.com/kcp-ipam/ipam/test/gen"
)

// inNetwork returns a bound claim for the network red.
func inNetwork(name, block, pool string, options ...gen.ClaimOption) page.Claim {
	claim := gen.Claim(name, append(options, gen.OfClass("internal"), gen.Within("network", "red"))...)
	claim.Status.AllocatedCIDR, claim.Status.PoolRef = block, &ipamv1alpha1.PoolRef{Name: pool}
	claim.Status.BoundAllocationRef = &ipamv1alpha1.LocalRef{Name: "record-of-" + name}
	claim.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-2 * time.Hour))}}
	return page.Claim{IPClaim: claim}
}

// withNetwork returns the town with a pool for the network red. A range claim holds the pool, and two claims are in it.
func withNetwork() *scenery {
	scene := town("")
	rack := scene.Pools[1].Object
	rack.Spec.Scope, rack.Spec.ClassRef = ipamv1alpha1.Scope(gen.Within("network", "red")), &ipamv1alpha1.ClassRef{Name: "vpc"}
	scene.Claims = append(scene.Claims, inNetwork("whole", "192.0.2.64/26", "rack", gen.ForRange()), inNetwork("vm", "192.0.2.64/29", "rack"), inNetwork("db", "192.0.2.72/29", "rack"))
	return scene
}

// The networks are listed with their pools, the range claims that hold these, and the number of blocks held in each.
func TestNetworks_ShowPoolsAndRanges(t *testing.T) {
	t.Parallel()
	handler := pages(withNetwork())
	shows(t, handler, "/networks", "1 to 1 of 1 scope", "network=red", `href="/pool/rack"`, "192.0.2.64/26", "vpc", `href="/claim/default/whole"`, "93.8%", `href="/search?q=network%3Dred">2</a>`)
	shows(t, handler, "/search?q=network%3Dred", "rack", "claim default/vm")
	more := withNetwork()
	for _, claim := range more.Claims[1:] {
		claim.Spec.Scope["subnet"] = ipamv1alpha1.ScopeRef{Kind: "Subnet", Name: "web"} // a role that no class requires
	}
	shows(t, pages(more), "/networks", "1 to 1 of 1 scope", `href="/claim/default/whole"`, `">2</a>`)
	shows(t, pages(town("")), "/networks", "No pool and no claim that you may see names a scope")
}

// The page of a claim shows its place, its record and, if the caller may see that, its history.
func TestClaim_HasAPage(t *testing.T) {
	t.Parallel()
	scene := withNetwork()
	scene.past = []lookup.Holder{{
		Prefix: netip.MustParsePrefix("192.0.2.64/29"), Name: "old", Namespace: "default", Workspace: "root:gone", PoolName: "rack", Scope: "network=red",
		From: noon.Add(-48 * time.Hour), Until: noon.Add(-24 * time.Hour), Cause: "Released",
	}}
	handler := pages(scene)
	shows(t, handler, "/claims", `href="/claim/default/vm"`, `href="/claim/default/batch?workspace=root%3Ateam-a"`)
	shows(t, handler, "/claim/default/vm", "default/vm", `href="/pool/rack?block=192.0.2.64%2F29#block"`, "network=red", "record-of-vm", "<dt>Bound</dt>",
		"History", "default/old", "root:gone", "2026-02-27T12:00:00Z", "Released")
	shows(t, handler, "/claim/default/batch?workspace=root:team-a", "PoolExhausted", "too big")
	shows(t, handler, "/search?q=192.0.2.65", "History", "default/old")
	for _, path := range []string{"/claim/default/nobody", "/claim/default/batch", "/claim/other/vm"} {
		if w := get(t, handler, path); w.Code != http.StatusNotFound {
			t.Errorf("GET %s ends with %d, want %d", path, w.Code, http.StatusNotFound)
		}
	}
	scene.unknown = errors.New("ask an admin")
	shows(t, pages(scene), "/claim/default/vm", "record-of-vm", "ask an admin")
	shows(t, pages(scene), "/search?q=192.0.2.65", "ask an admin")
}

// A text limits the list of claims to those that have it.
func TestClaims_AreFiltered(t *testing.T) {
	t.Parallel()
	handler := pages(withNetwork())
	for filter, want := range map[string]string{"VM": "default/vm", "network%3Dred": "default/db", "poolexhausted": "default/batch", "192.0.2.72": "default/db"} {
		said := shows(t, handler, "/claims?filter="+filter, want)
		if want != "default/db" && strings.Contains(said, ">default/db<") {
			t.Errorf("the claims with %s have default/db:\n%s", filter, said)
		}
	}
	shows(t, handler, "/claims?filter=nothing", "There is no claim that you may see", `value="nothing"`)
}

// The planner asks the user for the scope that a class requires, and sends it with the claim.
func TestPlan_AsksForTheScope(t *testing.T) {
	t.Parallel()
	scene := town("")
	scene.Classes[0].Status.RequiredScopeRoles = []string{"network", "location"}
	var asked ipamv1alpha1.Scope
	answer := scene.preview
	scene.preview = func(claim *ipamv1alpha1.IPClaim) error { asked = claim.Spec.Scope; return answer(claim) }
	handler := pages(scene)
	shows(t, handler, "/plan?class=internal", `name="scope.network"`, `name="scope.location"`, "Say for which network")
	shows(t, handler, "/plan?class=internal&scope.network=red", `value="red"`, "Say for which location")
	if asked != nil {
		t.Errorf("the system was asked for %v; want that it was not asked", asked)
	}
	shows(t, handler, "/plan?class=internal&scope.network=red&scope.location=ams", "It would get")
	if asked["network"].Name != "red" || asked["location"].Name != "ams" {
		t.Errorf("the system was asked for the scope %v, want network red and location ams", asked)
	}
	shows(t, handler, "/plan", `name="scope.network"`) // this is the default class
}
