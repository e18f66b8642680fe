package page_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page"
	"github.com/kcp-ipam/ipam/test/gen"
)

// without returns claims that have no block for this reason. Each is older than the one before it.
func without(reason ipamv1alpha1.Reason, stalled metav1.ConditionStatus, count int) []page.Claim {
	claims := make([]page.Claim, count)
	for i := range claims {
		claim := gen.Claim(fmt.Sprintf("%s-%d", strings.ToLower(string(reason)), i), gen.OfClass("internal"), gen.Length(24), gen.Created(noon.Add(-time.Duration(i+1)*time.Minute)))
		claim.Status.Conditions = []metav1.Condition{
			{Type: ipamv1alpha1.ConditionAllocated, Status: metav1.ConditionFalse, Reason: string(reason), Message: "said of " + claim.Name},
			{Type: ipamv1alpha1.ConditionStalled, Status: stalled},
		}
		claims[i] = page.Claim{IPClaim: claim}
	}
	return claims
}

// However many claims have no block, they do not push the pools out of sight. There is one line for each of the five
// largest reasons. Claims that can never be bound are listed separately.
func TestOverview_GroupsClaimsByReason(t *testing.T) {
	t.Parallel()
	scene := town("")
	scene.Claims = append(without(ipamv1alpha1.ReasonPoolExhausted, metav1.ConditionFalse, 27), without(ipamv1alpha1.ReasonPrefixLengthRejected, metav1.ConditionTrue, 13)...)
	said := shows(t, pages(scene), "/", "40 claims</a> without a block", "poolexhausted-26", "26 others", `href="/claims?reason=PoolExhausted"`,
		"waits for 27m", "Claims that cannot be bound as they are written", "prefixlengthrejected-12", "12 others", "created 13m ago")
	above, _, _ := strings.Cut(said, `<h2 id="pools">`)
	if rows := strings.Count(above, "asks for"); rows != 2 {
		t.Errorf("the overview has %d lines of claims before the pools, want one for each of 2 reasons", rows)
	}
	for i := range 9 {
		scene.Claims = append(scene.Claims, without(ipamv1alpha1.Reason(fmt.Sprintf("Reason%d", i)), metav1.ConditionFalse, 1)...)
	}
	said = shows(t, pages(scene), "/", "6 more reasons in the list of claims")
	above, _, _ = strings.Cut(said, `<h2 id="pools">`)
	if rows := strings.Count(above, "asks for"); rows != 5 {
		t.Errorf("the overview has %d lines of claims before the pools, want 5", rows)
	}
}

// Five things that need attention are shown before the pools, and all others after them.
func TestOverview_ShowsFiveThingsBeforeThePools(t *testing.T) {
	t.Parallel()
	scene := town("")
	for i := range 12 {
		claim := gen.Claim(fmt.Sprintf("left-%02d", i))
		claim.Status.AllocatedCIDR = "192.0.2.16/28"
		claim.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionOverlapping, Status: metav1.ConditionTrue, Message: "also a pool of the platform"}}
		scene.Claims = append(scene.Claims, page.Claim{IPClaim: claim})
	}
	above, below, _ := strings.Cut(shows(t, pages(scene), "/", "more below the pools", "More that needs attention"), `<h2 id="pools">`)
	if before, after := strings.Count(above, ">overlaps<"), strings.Count(below, ">overlaps<"); before == 0 || before > 5 || before+after != 12 {
		t.Errorf("%d claims are before the pools and %d after them, want 5 at most of 12", before, after)
	}
}

// The list has all claims that the caller may see, with blocks and pools. It can be limited to one reason.
func TestClaims_AreListedWithBlocksAndPools(t *testing.T) {
	t.Parallel()
	scene := town("")
	bound := gen.Claim("web", gen.OfClass("internal"), gen.OwnedBy(ipamv1alpha1.OwnerRef{Kind: "Service", Namespace: "default", Name: "shop"}))
	bound.Status.AllocatedCIDR, bound.Status.PoolRef = "192.0.2.16/28", &ipamv1alpha1.PoolRef{Name: "office"}
	hidden := gen.Claim("vpn")
	hidden.Status.AllocatedCIDR = "203.0.114.16/28"
	hidden.Status.PoolRef = &ipamv1alpha1.PoolRef{Name: "secret", ProjectRef: &ipamv1alpha1.ProjectRef{Name: "root:net"}}
	scene.Claims = append(scene.Claims, page.Claim{IPClaim: bound}, page.Claim{IPClaim: hidden})
	handler := pages(scene)
	shows(t, handler, "/claims", "1 to 3 of 3 claims", "default/web", `href="/pool/office?block=192.0.2.16%2F28#block"`, "Service/default/shop",
		"secret of root:net", "203.0.114.16/28", "default/batch of root:team-a", "nightly", "PoolExhausted", `aria-current="page">Claims`)
	said := shows(t, handler, "/claims?reason=PoolExhausted", "1 to 1 of 1 claim", "default/batch", "show all")
	if strings.Contains(said, "default/web") {
		t.Errorf("the claims of one reason have one that is bound:\n%s", said)
	}
	scene.Claims[0].Annotations[ipamv1alpha1.AnnotationDescription] = strings.Repeat("ä", 1000)
	if said = shows(t, handler, "/claims"); strings.Count(said, "ä") != 299 || !strings.Contains(said, "ä…") {
		t.Errorf("of a description of 1000 letters the page has %d, want 299 and three dots", strings.Count(said, "ä"))
	}
	scene.Claims = nil
	shows(t, pages(scene), "/claims", "There is no claim that you may see")
	scene.Claims = without(ipamv1alpha1.ReasonPoolExhausted, metav1.ConditionFalse, 1200)
	shows(t, pages(scene), "/claims?reason=PoolExhausted&page=2", "501 to 1000 of 1200", `href="/claims?page=3&amp;reason=PoolExhausted"`, `href="/claims?page=1&amp;reason=PoolExhausted"`)
}

// Plans are offered for lengths that a class of the pool gives. If the pool backs no class, they ask for the pool
// itself.
func TestPlan_OffersWhatIsGiven(t *testing.T) {
	t.Parallel()
	scene := town("")
	said := shows(t, pages(scene), "/pool/office?block=192.0.2.48/28", "What fits", `href="/plan?class=internal&amp;length=28"`, `internal</bdi></a> <span class="muted">`+ipamv1alpha1.LengthsColumn(&ipamv1alpha1.PrefixLengthRange{Min: 24, Max: 28}))
	if strings.Contains(said, "length=29") {
		t.Errorf("a /29 is offered, and the class gives /24 to /28:\n%s", said)
	}
	scene.Pools[0].Object.Spec.ClassNames = []string{"internal", "hosts"}
	scene.Classes = append(scene.Classes, *gen.Class("hosts", gen.Lengths{Min: 32, Max: 32}))
	scene.Pools[0].Object.Spec.Allocation.MinPrefixLength = 28
	shows(t, pages(scene), "/pool/office?block=192.0.2.48/28", `href="/plan?class=internal&amp;length=28"`, `href="/plan?class=hosts&amp;length=32"`)
	shows(t, pages(scene), "/plan?class=internal&length=26", `<option value="24">`, `<option value="28">`)
	scene.Pools[0].Object.Spec.ClassNames = nil
	shows(t, pages(scene), "/pool/office?block=192.0.2.48/28", `href="/plan?length=28&amp;pool=office"`)
}

// A plan for a pool asks for this pool, and for no class.
func TestPlan_AsksForAPool(t *testing.T) {
	t.Parallel()
	scene := town("")
	var asked ipamv1alpha1.IPClaimSpec
	answer := scene.preview
	scene.preview = func(claim *ipamv1alpha1.IPClaim) error { asked = claim.Spec; return answer(claim) }
	handler := pages(scene)
	shows(t, handler, "/plan?pool=edge&workspace=root:net&length=28", "It would get", `name="pool" value="edge"`, `name="workspace" value="root:net"`)
	if asked.PoolRef == nil || asked.PoolRef.Name != "edge" || asked.PoolRef.ProjectRef.Name != "root:net" || asked.ClassName != "" || asked.PrefixLength != 28 {
		t.Errorf("the claim asks for %+v, want a /28 from the pool edge of root:net", asked)
	}
	shows(t, handler, "/plan?pool=edge&class=internal", "Give a class or a pool, not both.")
	if w := get(t, handler, "/claims/x"); w.Code != http.StatusNotFound {
		t.Errorf("GET /claims/x ends with %d, want %d", w.Code, http.StatusNotFound)
	}
}

// The block of a slice counts as a block of its workspace.
func TestOverview_CountsASlice(t *testing.T) {
	t.Parallel()
	scene := town("")
	scene.Pools[3].Held[0] = scene.Pools[0].Held[2]
	scene.Pools[3].Held[0].Slice = true
	shows(t, pages(scene), "/", "64 addresses are yours")
}
