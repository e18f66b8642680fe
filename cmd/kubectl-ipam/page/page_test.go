package page_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/internal/lookup"
	"github.com/kcp-ipam/ipam/test/gen"
)

const (
	host  = "127.0.0.1:8080"
	token = "secret"
)

// noon is the time in every test.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// scenery is a source with a fixed snapshot. Reading from the API is tested in test/ui.
type scenery struct {
	*page.Snapshot
	err     error
	preview func(*ipamv1alpha1.IPClaim) error
	past    []lookup.Holder
	unknown error
	reads   int
}

func (s *scenery) Read(context.Context) (*page.Snapshot, error) {
	s.reads++
	return s.Snapshot, s.err
}

func (s *scenery) Preview(_ context.Context, claim *ipamv1alpha1.IPClaim) error {
	return s.preview(claim)
}

func (s *scenery) History(context.Context, lookup.Query) (lookup.Answer, error) {
	return lookup.Answer{Holders: s.past}, s.unknown
}

// pages returns the pages of a source.
func pages(source page.Source) http.Handler {
	return page.New(page.Options{Source: source, Host: host, Token: token, Now: func() time.Time { return noon }})
}

// get returns the answer to a browser that is admitted.
func get(t testing.TB, handler http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+path, nil)
	r.AddCookie(&http.Cookie{Name: "kubectl-ipam-8080", Value: token})
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// shows fails the test unless a page is served and has all of these texts.
func shows(t *testing.T, handler http.Handler, path string, want ...string) string {
	t.Helper()
	w := get(t, handler, path)
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s ends with %d: %s", path, w.Code, w.Body)
	}
	for _, text := range want {
		if !strings.Contains(w.Body.String(), text) {
			t.Errorf("GET %s does not say %q:\n%s", path, text, w.Body)
		}
	}
	return w.Body.String()
}

// withFigures returns a pool as a ready pool with these figures.
func withFigures(pool *ipamv1alpha1.IPPool, cidr, total, allocated string, percent float64) *ipamv1alpha1.IPPool {
	pool.Status.AllocatedCIDR, pool.Status.Phase, pool.Status.IPFamily = cidr, ipamv1alpha1.PoolReady, ipamv1alpha1.IPv4
	pool.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: total, Allocated: allocated, Available: "112"}
	pool.Status.UtilizationPercent = &percent
	pool.Status.LargestFreePrefix = new(int32)
	*pool.Status.LargestFreePrefix = 26
	pool.Status.Conditions = []metav1.Condition{
		{Type: ipamv1alpha1.ConditionAllocated, Status: metav1.ConditionTrue, Reason: "AllocationSucceeded"},
		{Type: ipamv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "AllocationSucceeded"},
	}
	return pool
}

// town returns a platform with pools, a tenant and a claim that waits. Every free text in it contains hostile.
func town(hostile string) *scenery {
	held := func(block, name, workspace string, kind space.Kind) space.Holding {
		words := map[space.Kind]string{space.Claimed: "claim ", space.Retained: "retained for ", space.Child: "pool "}
		return space.Holding{
			Block: netip.MustParsePrefix(block), Name: name, Workspace: workspace, Kind: kind, Class: "internal",
			Holder: space.In(words[kind]+name, workspace), Owner: hostile, Since: metav1.NewTime(noon.Add(-time.Hour)),
		}
	}
	office := withFigures(gen.Pool("office", gen.Backs("internal"), gen.Reserves(1, 1, 28), gen.MaxPerConsumer("64")), "192.0.2.0/24", "256", "144", 56.25)
	rack := withFigures(gen.Pool("rack", gen.ChildOf("office", 26)), "192.0.2.64/26", "64", "60", 93.75)
	lent := withFigures(gen.Pool("lent"), "198.51.100.0/24", "256", "96", 37.5)
	claim := gen.Claim("batch", gen.OfClass(hostile), gen.Length(26))
	claim.Status.Conditions = []metav1.Condition{{
		Type: ipamv1alpha1.ConditionAllocated, Status: metav1.ConditionFalse, Reason: string(ipamv1alpha1.ReasonPoolExhausted), Message: "too big " + hostile,
	}}
	office.Annotations = map[string]string{ipamv1alpha1.AnnotationDescription: "offices of " + hostile}
	claim.Annotations = map[string]string{ipamv1alpha1.AnnotationDescription: "nightly " + hostile}
	class := gen.Class("internal", gen.Lengths{Min: 24, Max: 28}, gen.Default())
	return &scenery{Snapshot: &page.Snapshot{
		Workspace: "root:ipam", Namespace: "default", Tenants: true, Classes: []ipamv1alpha1.IPClass{*class},
		Claims: []page.Claim{{IPClaim: claim, Workspace: "root:team-a" + hostile}},
		Pools: []page.Pool{
			{Pool: space.Pool{Name: "office", Object: office, Held: []space.Holding{
				held("192.0.2.16/28", "default/web"+hostile, "", space.Claimed), held("192.0.2.32/28", "default/db", "root:team-b"+hostile, space.Claimed),
				held("192.0.2.64/26", "rack", "", space.Child), held("192.0.2.128/28", "default/old", "", space.Retained),
			}}},
			{Pool: space.Pool{Name: "rack", Object: rack, Held: []space.Holding{held("192.0.2.64/29", "default/vm", "", space.Claimed)}}},
			{Pool: space.Pool{Name: "lent", Object: lent}},
			{Pool: space.Pool{Name: "edge", Workspace: "root:net", Held: []space.Holding{held("203.0.113.16/28", "default/mine", "", space.Claimed)}}},
		},
	}, preview: func(claim *ipamv1alpha1.IPClaim) error {
		claim.Status.AllocatedCIDR = "192.0.2.48/28"
		claim.Status.PoolRef = &ipamv1alpha1.PoolRef{Name: "office"}
		claim.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated, Status: metav1.ConditionTrue}}
		return nil
	}}
}

// A pool with enough samples says when it will be full.
func TestPool_SaysWhenItWillBeFull(t *testing.T) {
	t.Parallel()
	scene := town("")
	office := scene.Pools[0].Object
	office.Annotations = map[string]string{ipamv1alpha1.AnnotationUsage: fmt.Sprintf("%d=116", noon.Add(-7*24*time.Hour).Unix())}
	shows(t, pages(scene), "/", "full in 28 days at the rate of the last week")
	shows(t, pages(scene), "/pool/office", "full in 4 days (last day), full in 28 days (last week), too little data (last month)")
	shows(t, pages(scene), "/pool/lent", "Forecast: too little data.")
}

func TestOverview_ShowsPoolsAndClaims(t *testing.T) {
	t.Parallel()
	said := shows(t, pages(town("")), "/", "56.2% used", "192.0.2.0/24", "PoolExhausted", "too big", "nearly full", "16 addresses are yours", "asks for <bdi>/26", "carved from", `href="/plan?class=internal"`)
	if got := strings.Count(said, `class="tile `); got != 4 {
		t.Errorf("the overview has %d tiles, want 4", got)
	}
}

// A frozen pool has its CIDR, and is not Ready. It is the only pool that is said to need attention because it is not
// Ready.
func TestOverview_SaysThatAPoolIsFrozen(t *testing.T) {
	t.Parallel()
	scene := town("")
	if said := shows(t, pages(scene), "/"); strings.Contains(said, "not ready") && strings.Contains(said, "frozen") {
		t.Fatalf("a pool is frozen before one is: %s", said)
	}
	ready := &scene.Pools[0].Object.Status.Conditions[1]
	ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, string(ipamv1alpha1.ReasonError), "frozen: the ledger was lost"
	shows(t, pages(scene), "/", "not ready", "Error: frozen: the ledger was lost")
}

func TestPool_HasAMapAndDetails(t *testing.T) {
	t.Parallel()
	handler := pages(town(""))
	shows(t, handler, "/pool/office", "default/web", "held by another workspace", "child pool", "retained", "reserved or excluded", "offices of", `href="/pool/office?block=192.0.2.16%2F28#block"`, "Pick a block")
	shows(t, handler, "/pool/office?block=192.0.2.32/28", "claim default/db of root:team-b", "60m", "internal")
	shows(t, handler, "/pool/office?block=192.0.2.64/26", `href="/pool/rack"`, "Open the pool")
	shows(t, handler, "/pool/office?block=192.0.2.48/28", "What fits", `href="/plan?class=internal&amp;length=28"`)
	shows(t, handler, "/pool/office?block=192.0.2.0/28", "spec.reservations of the pool covers")
	zoomed := shows(t, handler, "/pool/office/192.0.2.64/26", "pool rack", `href="/pool/office"`)
	if strings.Contains(zoomed, "192.0.2.128/28") {
		t.Errorf("the map of 192.0.2.64/26 shows a block beside it:\n%s", zoomed)
	}
	shows(t, handler, "/pool/lent", "Others hold 96 addresses", "free, or held by others")
	cooling := town("")
	lent := cooling.Pools[2].Object
	lent.Status.Capacity.Cooling, lent.Status.NextRelease = "96", &metav1.Time{Time: noon}
	for _, path := range []string{"/pool/lent", "/pool/lent/list"} {
		shows(t, pages(cooling), path, "96 addresses of the pool cool after their release", "free, or cooling")
	}
	shows(t, handler, "/pool/edge?workspace=root:net", "belongs to another workspace", "default/mine", "free, or held by others")
}

// If too many blocks lie in a part of the map, the part is one box with their number, and leads to a map of the part.
func TestPool_LeadsIntoCrowdedParts(t *testing.T) {
	t.Parallel()
	crowd := crowded(100_000)
	handler := pages(crowd)
	said := shows(t, handler, "/pool/big", "blocks: zoom in", `href="/pool/big/2001:db8:`)
	if shapes := strings.Count(said, "<rect") + strings.Count(said, "<text"); shapes > 2000 {
		t.Errorf("the map of %d blocks has %d shapes, want at most 2000", len(crowd.Pools[0].Held), shapes)
	}
	listed := shows(t, handler, "/pool/big/list", "1 to 500 of")
	if rows := strings.Count(listed, "<tr"); rows > 501 {
		t.Errorf("the list shows %d rows at once, want at most 500 and their heads", rows)
	}
	shows(t, handler, "/pool/big/list?page=3", "1001 to 1500 of")
}

// crowded returns a source with a pool that has this number of blocks, and as many gaps.
func crowded(count int) *scenery {
	p := page.Pool{Pool: space.Pool{Name: "big", Object: withFigures(gen.Pool("big"), "2001:db8::/32", "79228162514264337593543950336", fmt.Sprintf("%d0", count), 0.1), Held: make([]space.Holding, count)}}
	for i := range p.Held {
		at := uint32(i) * 13
		p.Held[i] = space.Holding{Name: "default/web", Holder: "claim default/web", Block: netip.PrefixFrom(
			netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, byte(at >> 16), byte(at >> 8), byte(at)}), 56)}
	}
	return &scenery{Snapshot: &page.Snapshot{Pools: []page.Pool{p}}}
}

func TestList_HasHeldAndFreeBlocks(t *testing.T) {
	t.Parallel()
	handler := pages(town(""))
	shows(t, handler, "/pool/office/list", "offices of", "192.0.2.48/28", "free", "depth-1", "93.8% used", "Free blocks by length", "default/vm", `href="/pool/office/list.csv"`)
	said := shows(t, handler, "/pool/office/list.csv", "BLOCK,ADDRESSES,STATE,HOLDER", "192.0.2.16/28,16,held here,claim default/web,internal,,2026-03-01T11:00:00Z,0,", "192.0.2.48/28,16,free,,,,,0,")
	if rows := strings.Count(said, "\n"); rows < 10 {
		t.Errorf("the CSV has %d rows:\n%s", rows, said)
	}
	for _, number := range []string{"0", "-1", "2", "x", "9223372036854775807", "18446744073709551615", "36893488147419104"} {
		shows(t, handler, "/pool/office/list?page="+number, "1 to ")
	}
}

func TestPlan_ShowsWhereAClaimWouldGo(t *testing.T) {
	t.Parallel()
	source := town("")
	handler := pages(source)
	shows(t, handler, "/plan", "Where would it go?")
	shows(t, handler, "/plan?class=internal&length=/28", "It would get <code>192.0.2.48/28</code>", "16 addresses", "56.2%", "62.5%", "your claim")
	shows(t, handler, "/plan?class=internal&length=x", "write 1 to 32 for IPv4")
	source.preview = func(claim *ipamv1alpha1.IPClaim) error {
		claim.Status.Requested = "/28"
		claim.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated, Status: metav1.ConditionFalse, Reason: string(ipamv1alpha1.ReasonPoolExhausted), Message: "no room"}}
		return nil
	}
	shows(t, handler, "/plan?class=internal", "It would get no block", "PoolExhausted: no room", ipamv1alpha1.ReasonPoolExhausted.Remedy())
}

func TestSearch_FindsBlocksAndNames(t *testing.T) {
	t.Parallel()
	handler := pages(town(""))
	shows(t, handler, "/search?q=192.0.2.17", "claim default/web", "192.0.2.16/28", `<a href="/pool/office"><bdi>office</bdi></a>`)
	shows(t, handler, "/search?q=198.51.100.0/30", "free, or allocated to another workspace, in pool lent")
	shows(t, handler, "/search?q=TEAM-B", "192.0.2.32/28", "claim default/db")
	shows(t, handler, "/search?q=batch", "Waiting claims", "PoolExhausted")
	shows(t, handler, "/search?q=offi", `href="/pool/office"`)
	shows(t, handler, "/search?q=nobody", "whose name contains <bdi>nobody</bdi>")
	shows(t, handler, "/search?q=8.8.8.8", "<bdi>8.8.8.8</bdi> is in no pool that you may see")
}

func TestTenants_CountBlocksAndLimits(t *testing.T) {
	t.Parallel()
	source := town("")
	source.Pools[0].Object.Spec.MaxPerConsumer = "128"
	shows(t, pages(source), "/tenants", "root:team-b", "root:ipam", "pool office</bdi>: 96 of 128", "75.0% used")
	source.Pools[0].Held[2].Slice = true // the limit does not count it
	shows(t, pages(source), "/tenants", "pool office</bdi>: 32 of 128")
	source.Tenants = false
	if w := get(t, pages(source), "/tenants"); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "root:team-b") {
		t.Errorf("GET /tenants of a tenant ends with %d: %s", w.Code, w.Body)
	}
}

// If something does not exist or cannot be read, a page says so.
func TestProblems_HaveAPage(t *testing.T) {
	t.Parallel()
	handler := pages(town(""))
	for path, status := range map[string]int{
		"/nowhere": 404, "/pool/none": 404, "/pool/office/10.0.0.0/8": 404, "/pool/office/x": 404, "/pool/office?block=x": 404,
		"/pool/none/list": 404, "/pool/none/list.csv": 404, "/pool/office?workspace=root:net": 404,
	} {
		if w := get(t, handler, path); w.Code != status || !strings.Contains(w.Body.String(), "This did not work") {
			t.Errorf("GET %s ends with %d: %s; want %d", path, w.Code, w.Body, status)
		}
	}
	away := &scenery{err: errors.New("no server")}
	if w := get(t, pages(away), "/"); w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), "no server") {
		t.Errorf("GET / without a server ends with %d: %s", w.Code, w.Body)
	}
}

// Requests within a short time share one snapshot.
func TestReading_SharesASnapshot(t *testing.T) {
	t.Parallel()
	now, source := noon, town("")
	handler := page.New(page.Options{Source: source, Host: host, Token: token, Now: func() time.Time { return now }})
	for _, step := range []struct {
		after time.Duration
		reads int
	}{{0, 1}, {time.Second, 1}, {time.Second, 2}, {1900 * time.Millisecond, 2}, {time.Minute, 3}} {
		now = now.Add(step.after)
		shows(t, handler, "/")
		if source.reads != step.reads {
			t.Errorf("at %s the source was read %d times, want %d", now, source.reads, step.reads)
		}
	}
}
