package page_test

import (
	"net/netip"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/test/gen"
)

// In a pool that gives each network the same addresses, every page says for which network an address is given: the claims by all of
// their objects. A pool that was made for a network says so, too.
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
