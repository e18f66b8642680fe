package e2e

import (
	"context"
	"fmt"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// The first interface of a network, two levels below the platform's pool, costs three objects, the two IPPools and the IPAllocation, and
// the statuses of the IPPools, each written about once.
func TestWrites_FewForANewNetwork(t *testing.T) {
	t.Parallel()
	const networks = 10
	platform, tenant, _ := alone(t)
	v6 := gen.Family(ipamv1alpha1.IPv6)
	framework.Create(t, platform,
		gen.Class("vpc", v6, gen.DefaultLength(48), gen.PoolPer("network", ipamv1alpha1.RoleProject)),
		gen.Class("subnet", v6, gen.DefaultLength(64), gen.Below("vpc"), gen.PoolPer("network", "location", ipamv1alpha1.RoleProject)),
		gen.Class("endpoint", v6, gen.DefaultLength(96), gen.Below("subnet")), platformPool("vpc", "2001:db8::/32", "vpc"))
	serves(t, tenant, gen.OfClass("endpoint"), gen.Within("network", "probe", "location", "probe"))
	waitRest(t, platform)
	before := readMeters(t, platform)
	for i := range networks {
		claim := gen.Claim(fmt.Sprintf("claim-%d", i), gen.OfClass("endpoint"), gen.Within("network", fmt.Sprintf("network-%d", i), "location", "ams"))
		framework.Create(t, tenant, claim)
	}
	framework.Eventually(t, "all objects to be made", func(ctx context.Context) error {
		pools := &ipamv1alpha1.IPPoolList{}
		if err := tenant.List(ctx, pools); err != nil {
			return err
		}
		for i := range pools.Items {
			if pools.Items[i].Status.AllocatedCIDR == "" {
				return fmt.Errorf("pool %s has no status", pools.Items[i].Name)
			}
		}
		if made := readMeters(t, platform).since(before).writes["POST 201"]; made != 3*networks || len(pools.Items) != 2*networks {
			return fmt.Errorf("%d objects were made, and there are %d pools, want %d and %d", made, len(pools.Items), 3*networks, 2*networks)
		}
		return nil
	})
	// One for each IPPool, those of the root pool and of the classes, and a second one where a CREATE took long.
	if patched := readMeters(t, platform).since(before).writes["PATCH 200"]; patched >= 5*networks {
		t.Errorf("%d patches for %d networks, want less than %d", patched, networks, 5*networks)
	}
}

// alone returns a platform with a controller of its own, a tenant, and a pool of the platform
// behind a class of the same name.
func alone(t *testing.T) (*framework.Platform, *framework.Tenant, *ipamv1alpha1.IPPool) {
	t.Helper()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	name := framework.Name(t)
	pool := offer(t, platform, name, platform.CIDR(t))
	waitOffering(t, platform, name, 1)
	return platform, platform.Tenant(t), pool
}
