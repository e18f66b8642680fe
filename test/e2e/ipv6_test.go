package e2e

import (
	"math/big"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Addresses of IPv6 are counted exactly however many there are, on each level.
func TestIPv6_ExactCapacities(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	world := gen.Pool("world", gen.CIDR("::/0"), gen.Reserves(1, 1, 128))
	site := gen.Pool("site", gen.ChildOf("world", 32))
	rack := gen.Pool("rack", gen.ChildOf("site", 48), gen.Excludes())
	framework.Create(t, s.tenant, world, site, rack)
	network, host := gen.Claim("network", gen.FromPool("rack"), gen.Length(64)), gen.Claim("host", gen.FromPool("rack"), gen.Length(128))
	framework.Create(t, s.tenant, network, host)
	framework.WaitBound(t, s.tenant, network, host)

	for _, row := range []struct {
		pool             *ipamv1alpha1.IPPool
		total, allocated string
		largest          int32
	}{
		{world, "340282366920938463463374607431768211456", "79228162514264337593543950338", 2},
		{site, "79228162514264337593543950336", "1208925819614629174706176", 33},
		{rack, "1208925819614629174706176", "18446744073709551617", 49},
	} {
		allocated, _ := new(big.Int).SetString(row.allocated, 10)
		waitHeld(t, s.tenant, row.pool, allocated)
		status := row.pool.Status
		if status.Capacity.Total != row.total || status.IPFamily != ipamv1alpha1.IPv6 || status.LargestFreePrefix == nil || *status.LargestFreePrefix != row.largest {
			t.Errorf("the status of pool %s is %+v; want a total of %s, IPv6, and /%d as the largest free prefix",
				row.pool.Name, status, row.total, row.largest)
		}
	}
	if got := *rack.Status.UtilizationPercent; got != 0.0015 {
		t.Errorf("the rack is used to %v %%; want 0.0015, of four decimals", got)
	}
	if got := host.Status.Address; got == "" || got != blockOf(t, host).Addr().String() {
		t.Errorf("the address of a host is %q", got)
	}
	framework.Delete(t, s.tenant, network, host)
	for _, step := range []*ipamv1alpha1.IPPool{rack, site, world} {
		deleteUnused(t, s.tenant, step)
	}
}
