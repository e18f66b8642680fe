package page_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/test/gen"
)

// If a pool gives two networks the same addresses, the map and the list of one network show as free what only the other
// network holds.
func TestPool_ShowsOneAddressSpace(t *testing.T) {
	t.Parallel()
	pool := withFigures(gen.Pool("vrf"), "192.0.2.0/24", "256", "32", 12.5)
	pool.Status.Spaces = 2
	held := func(block, name, network string) space.Holding {
		return space.Holding{Block: netip.MustParsePrefix(block), Name: "default/" + name, Holder: "claim default/" + name, Scope: "network=" + network, Workspace: "root:web"}
	}
	scene := &scenery{Snapshot: &page.Snapshot{Workspace: "root:ipam", Pools: []page.Pool{{Pool: space.Pool{
		Name: "vrf", Object: pool, Held: []space.Holding{held("192.0.2.0/28", "a", "red"), held("192.0.2.0/28", "b", "blue"), held("192.0.2.128/28", "c", "blue")},
	}}}}}
	const red = "?space=network%3Dred+of+root%3Aweb"
	handler := pages(scene)
	shows(t, handler, "/pool/vrf", `<option value="">all 2`, `<option value="network=red of root:web">`)
	one := shows(t, handler, "/pool/vrf"+red, `<option selected value="network=red of root:web">`, "192.0.2.128/25, 128 addresses, free", "192.0.2.0/28, 16 addresses, held by another workspace", "<dd>6.2%</dd>")
	if strings.Contains(one, "default/c") || strings.Contains(one, "default/b") {
		t.Errorf("the map of the network red shows a block of blue:\n%s", one)
	}
	shows(t, handler, "/pool/vrf/list"+red, "default/a", `href="/pool/vrf?block=192.0.2.0%2F28&amp;space=network%3Dred&#43;of&#43;root%3Aweb#block"`, `action="/pool/vrf/list`)
	if w := get(t, handler, "/pool/vrf?space=network%3Dgreen"); w.Code != 404 {
		t.Errorf("the map of a network that is not seen ends with %d, want 404", w.Code)
	}
}

// Claims can be sorted by each column. The link of the column by which they are sorted reverses the order.
func TestClaims_AreSortedByEachColumn(t *testing.T) {
	t.Parallel()
	scene := town("")
	scene.Claims = nil
	for i, cidr := range []string{"192.0.2.128/28", "192.0.2.16/28", "10.0.0.0/28"} {
		claim := gen.Claim(fmt.Sprint("c", i))
		claim.Status.AllocatedCIDR = cidr
		scene.Claims = append(scene.Claims, page.Claim{IPClaim: claim})
	}
	for query, want := range map[string]string{
		"": "c0 c1 c2", "?sort=block": "c2 c1 c0", "?sort=-block": "c0 c1 c2", "?sort=-claim": "c2 c1 c0", "?sort=unheard": "c0 c1 c2",
	} {
		said := shows(t, pages(scene), "/claims"+query, `href="/claims?sort=`, "Read at 12:00:00 UTC.")
		names := strings.Split(want, " ")
		at := []int{strings.Index(said, "default/"+names[0]), strings.Index(said, "default/"+names[1]), strings.Index(said, "default/"+names[2])}
		if at[0] > at[1] || at[1] > at[2] {
			t.Errorf("/claims%s has the claims at %v, want %s", query, at, want)
		}
	}
	shows(t, pages(scene), "/claims?sort=block", `aria-sort="ascending"><a href="/claims?sort=-block">Block</a> ↑`)
}

// A range claim is said to ask for its range. A block of a large pool is linked to a part of the map that is small
// enough to draw the block.
func TestClaims_SayWhatRangesAskFor(t *testing.T) {
	t.Parallel()
	scene := town("")
	claim := gen.Claim("vpc", gen.OfClass("net"), gen.ForRange())
	large := withFigures(gen.Pool("large"), "10.0.0.0/8", "16777216", "16", 0.1)
	far := gen.Claim("far")
	far.Status.AllocatedCIDR, far.Status.PoolRef = "10.9.8.16/28", &ipamv1alpha1.PoolRef{Name: "large"}
	scene.Claims = []page.Claim{{IPClaim: claim}, {IPClaim: far}}
	scene.Pools = append(scene.Pools, page.Pool{Pool: space.Pool{Name: "large", Object: large}})
	shows(t, pages(scene), "/claims", "the range of class net", `href="/pool/large/10.9.0.0/20?block=10.9.8.16%2F28#block"`)
}

// Pools that were made for networks have no tiles. They are counted at the pool that they are carved from. At their
// tenant, each counts once, with all blocks inside.
func TestOverview_CountsPoolsOfNetworks(t *testing.T) {
	t.Parallel()
	made := func(name, cidr, parent string) page.Pool {
		pool := withFigures(gen.Pool(name, gen.ChildOf(parent, 20)), cidr, "4096", "16", 0.4)
		pool.Spec.ClassRef = &ipamv1alpha1.ClassRef{Name: "net"}
		return page.Pool{Pool: space.Pool{Name: name, Workspace: "root:web", Object: pool}}
	}
	inside := func(cidr, name string, kind space.Kind) space.Holding {
		return space.Holding{Block: netip.MustParsePrefix(cidr), Name: name, Kind: kind, Workspace: "root:web", Class: "nic", Holder: name, Since: metav1.NewTime(noon)}
	}
	root := page.Pool{Pool: space.Pool{Name: "root", Object: withFigures(gen.Pool("root"), "10.0.0.0/8", "16777216", "8192", 0.1)}}
	root.Held = []space.Holding{inside("10.0.0.0/20", "net-a", space.Child), inside("10.0.16.0/20", "net-b", space.Child)}
	a, sub, b := made("net-a", "10.0.0.0/20", "root"), made("sub-a", "10.0.0.0/24", "net-a"), made("net-b", "10.0.16.0/20", "root")
	a.Held, sub.Held = []space.Holding{inside("10.0.0.0/24", "sub-a", space.Child)}, []space.Holding{inside("10.0.0.0/32", "default/eth0", space.Claimed)}
	scene := &scenery{Snapshot: &page.Snapshot{Workspace: "root:ipam", Tenants: true, Pools: []page.Pool{root, a, sub, b}}}
	said := shows(t, pages(scene), "/", `<a href="/networks">3 more</a> made for networks`, "3 for networks inside", "1 pool, ")
	if strings.Contains(said, `href="/pool/net-a`) {
		t.Errorf("the overview has a tile for a pool of a network:\n%s", said)
	}
	shows(t, pages(scene), "/tenants", `data-label="Blocks">1</td>`, `data-label="Ranges">3</td>`, `data-label="Addresses">8,192</td>`)
	scene.Pools = []page.Pool{b}
	shows(t, pages(scene), "/", `All pools that you may see were made for <a href="/networks">`)
}
