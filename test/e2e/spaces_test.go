package e2e

import (
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A class below another one gives out each address once in each VRF of a network: the network's pool has an address
// space for each VRF. The network cannot be released while one of them has an address, and goes with all of them.
func TestSpaces_RepeatAddressesInThePoolOfANetwork(t *testing.T) {
	t.Parallel()
	r := &ranges{scene: newScene(t)}
	net := r.name + "-net"
	framework.Create(t, r.platform,
		gen.Class(net, gen.DefaultLength(24), gen.PoolPer("network", ipamv1alpha1.RoleProject)),
		gen.Class(r.name, gen.DefaultLength(32), gen.Below(net), gen.UniqueWithin("vrf")))
	r.root = platformPool(r.name, r.cidr, net)
	framework.Allocate(t, r.platform, r.root)
	r.platform.WaitWebhooks(t, r.tenant)
	in := func(vrf string) []gen.ClaimOption {
		return []gen.ClaimOption{gen.OfClass(r.name), gen.Within("network", "vpc", "vrf", vrf)}
	}
	serves(t, r.tenant, in("probe")...)
	held, red, blue, next := r.network(), gen.Claim("red", in("red")...), gen.Claim("blue", in("blue")...), gen.Claim("next", in("red")...)
	r.gets(held, red, blue, next)
	if first, other, second := red.Status.AllocatedCIDR, blue.Status.AllocatedCIDR, next.Status.AllocatedCIDR; first != other || second == first {
		t.Errorf("two VRFs got %s and %s, and the first one then %s; want the same twice, and another address", first, other, second)
	}
	framework.WaitBound(t, r.tenant, red, blue, next)
	framework.WaitWhile(t, r.tenant, r.pool(held), "it does not show two address spaces", func(pool *ipamv1alpha1.IPPool) bool { return pool.Status.Spaces != 2 })
	r.refuses(held, "claim default/red", "claim default/blue", "claim default/next")
	r.gone(red, blue, next, held)
	again := gen.Claim("again", in("red")...)
	r.gets(again)
	r.gone(again)
}
