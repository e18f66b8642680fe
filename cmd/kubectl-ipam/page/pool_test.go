package page_test

import (
	"net/netip"
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/test/gen"
)

// If a pool gives each network the same addresses, every page that shows an address also shows its network. The page of
// claims shows all objects of their scopes. The page of a pool that was made for a network names the network.
func TestScope_IsShownBesideTheAddress(t *testing.T) {
	t.Parallel()
	scene := town("")
	within := func(network string) space.Holding {
		return space.Holding{Block: netip.MustParsePrefix("192.0.2.16/28"), Name: "default/" + network, Holder: "claim default/" + network, Scope: "network=" + network}
	}
	office := &scene.Pools[0]
	office.Held = []space.Holding{within("blue"), within("green")}
	office.Object.Spec.ClassNames, office.Object.Status.Spaces = []string{"internal"}, 2
	claim := gen.Claim("eth0", gen.OfClass("internal"), gen.Within("network", "blue", "location", "ams"))
	claim.Status.AllocatedCIDR, claim.Status.PoolRef = "192.0.2.16/28", &ipamv1alpha1.PoolRef{Name: "office"}
	scene.Claims = append(scene.Claims, page.Claim{IPClaim: claim})
	handler := pages(scene)
	shows(t, handler, "/claims", "location=ams, network=blue")
	shows(t, handler, "/pool/office", "Address spaces", "network=blue")
	shows(t, handler, "/pool/office?block=192.0.2.16/28", "claim default/blue", "network=blue", "claim default/green", "network=green")
	shows(t, handler, "/pool/office/list", "network=blue", "network=green")
	shows(t, handler, "/pool/office/list.csv", "SINCE,DEPTH,SCOPE", "network=blue", "network=green")
	shows(t, handler, "/search?q=192.0.2.17", "network=blue", "network=green")

	rack := scene.Pools[1].Object
	rack.Spec.Scope, rack.Spec.ClassRef = ipamv1alpha1.Scope(gen.Within("network", "red")), &ipamv1alpha1.ClassRef{Name: "internal"}
	office.Held = []space.Holding{{Block: netip.MustParsePrefix("192.0.2.64/26"), Name: "rack", Holder: "pool rack", Kind: space.Child}}
	handler = pages(scene)
	shows(t, handler, "/pool/rack", "Scope", "network=red")
	shows(t, handler, "/pool/office/list", "network=red")
}

// The addresses that a pool withholds are not shown as free, and no plan is offered for them.
func TestDetails_OffersNoWithheldAddress(t *testing.T) {
	t.Parallel()
	scene := town("")
	scene.Pools[0].Object = withFigures(gen.Pool("office", gen.Backs("internal"), gen.Gateway("192.0.2.1", 0)), "192.0.2.0/24", "256", "3", 1)
	scene.Pools[0].Held = nil
	for _, block := range []string{"192.0.2.0/32", "192.0.2.1/32", "192.0.2.255/32"} {
		said := shows(t, pages(scene), "/pool/office?block="+block, "reserved or excluded", "is never handed out")
		if strings.Contains(said, "What fits") {
			t.Errorf("%s is offered to be planned", block)
		}
	}
	shows(t, pages(scene), "/pool/office?block=192.0.2.2/32", "What fits")
}

// Blocks of another family, or outside the pool, are those of a former pool of the same name. They do not widen the
// window of the pool, and take nothing from its space.
func TestPool_IgnoresBlocksOfAFormerPool(t *testing.T) {
	t.Parallel()
	held := []space.Holding{{Block: netip.MustParsePrefix("198.51.100.0/28")}, {Block: netip.MustParsePrefix("2001:db8::/64")}, {Block: netip.MustParsePrefix("198.51.100.16/28")}}
	unseen := page.Pool{Pool: space.Pool{Name: "edge", Workspace: "root:net", Held: held}}
	if got, want := unseen.Window(), netip.MustParsePrefix("198.51.100.0/25"); got != want {
		t.Errorf("the window is %s, want %s", got, want)
	}
	scene := town("")
	scene.Pools = []page.Pool{unseen}
	for _, path := range []string{"/", "/pool/edge?workspace=root:net", "/pool/edge/list?workspace=root:net"} {
		shows(t, pages(scene), path, "edge")
	}
	seen := space.Pool{Name: "edge", Object: withFigures(gen.Pool("edge"), "198.51.100.0/28", "16", "16", 100), Held: held}
	if got := seen.Space().Known().String(); got != "16" {
		t.Errorf("the pool of 16 addresses knows of %s", got)
	}
}
