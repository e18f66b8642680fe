package ui

import (
	"errors"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// hostile is a name that a tenant may give to the owner of a block.
const hostile = `"><script>alert(1)</script>`

// town is a platform with a class and pools, and two tenants.
type town struct {
	platform   *framework.Platform
	web, other *framework.Tenant
}

// newTown fills a platform: what the tenant other has is named pay.
func newTown(t *testing.T) town {
	t.Helper()
	platform := framework.SharedPlatform(t)
	framework.Create(t, platform, gen.Class("internal", gen.Lengths{Min: 20, Max: 28}, gen.DefaultLength(26), gen.Default(), gen.MaxPerConsumer("16384")))
	made(t, platform, gen.Pool("internal-a", gen.CIDR("10.64.0.0/16"), gen.Backs("internal"), gen.Visible(ipamv1alpha1.VisibilityPlatform)))
	made(t, platform, gen.Pool("office", gen.CIDR("192.0.2.0/24"), gen.Reserves(1, 1, 28)))
	made(t, platform, gen.Pool("rack", gen.ChildOf("office", 26)))
	made(t, platform, gen.Pool("six", gen.CIDR("2001:db8::/32")))
	s := town{platform: platform, web: platform.TenantAt(t, "root:web"), other: platform.TenantAt(t, "root:payments")}
	made(t, s.web, gen.Pool("lab", gen.CIDR("10.200.0.0/20")))

	admin := framework.Admin(t, platform.Path)
	lengths := []int32{22, 24, 23, 26, 25, 24, 21, 26}
	for i, length := range lengths {
		framework.Create(t, s.web, gen.Claim(fmt.Sprintf("shop-%d", i), gen.OfClass("internal"), gen.Length(length)))
		framework.Create(t, s.other, gen.Claim(fmt.Sprintf("pay-%d", i), gen.OfClass("internal"), gen.Length(length)))
		framework.Create(t, s.web, gen.Claim(fmt.Sprintf("vm-%d", i), gen.FromPool("lab"), gen.Length(length+2)))
		framework.Create(t, admin, gen.Claim(fmt.Sprintf("host-%d", i), gen.FromPool("rack"), gen.Length(29+int32(i)%3)))
	}
	for i := range int32(3) {
		framework.Create(t, admin, gen.Claim(fmt.Sprintf("desk-%d", i), gen.FromPool("office"), gen.Length(28)), gen.Claim(fmt.Sprintf("site-%d", i), gen.FromPool("six"), gen.Length(34+i)))
	}
	framework.Create(t, s.web, gen.Claim("owned", gen.OfClass("internal"), gen.OwnedBy(ipamv1alpha1.OwnerRef{Kind: "Service", Namespace: "default", Name: hostile})))
	framework.Create(t, s.web, gen.Claim("wide", gen.OfClass("internal"), gen.Length(12)))
	retained := gen.Claim("archive", gen.OfClass("internal"), gen.Length(23), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	framework.Create(t, s.web, retained)
	framework.WaitBound(t, s.web, retained, gen.Claim("owned"))
	framework.Delete(t, s.web, retained)
	framework.WaitGone(t, s.web, retained)
	framework.WaitFor(t, s.platform, gen.Pool("internal-a"), func(pool *ipamv1alpha1.IPPool) error {
		if pool.Status.Capacity == nil || pool.Status.Capacity.Allocated == "0" {
			return errors.New("the pool counts nothing yet")
		}
		return nil
	})
	return s
}

// made makes a pool that is ready.
func made(t *testing.T, c client.Client, pool *ipamv1alpha1.IPPool) {
	t.Helper()
	framework.Allocate(t, c, pool)
}
