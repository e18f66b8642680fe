//go:build long

package e2e

import (
	"os"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// Neither the kill of a controller nor the loss of a ledger takes a range from its claim, or an address from a claim
// inside. All of them can be released afterwards.
func TestLong_RangesOutliveTheControllerAndItsLedger(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	r := newRangesIn(scene{T: t, platform: platform, tenant: platform.Tenant(t), name: framework.Name(t), cidr: platform.CIDR(t)})
	net, loc, a := r.network(), r.location(), r.endpoint("a", "vpc")
	r.gets(net, loc, a)
	framework.WaitBound(t, r.tenant, a)
	for _, shown := range []*ipamv1alpha1.IPClaim{net, loc} {
		framework.WaitWhile(t, r.tenant, r.pool(shown), "it does not show "+shown.Status.AllocatedCIDR, func(pool *ipamv1alpha1.IPPool) bool {
			return pool.Status.AllocatedCIDR != shown.Status.AllocatedCIDR
		})
	}
	for name, end := range map[string]func(){
		"b": func() { platform.KillController(t) },
		"c": func() {
			platform.StopController(t)
			must.Do(t, os.RemoveAll(platform.LedgerDir()))
		},
	} {
		end()
		platform.StartController(t)
		r.platform.WaitWebhooks(t, r.tenant)
		next := r.endpoint(name, "vpc", gen.Unmet(ipamv1alpha1.UnmetWait))
		framework.Bind(t, r.tenant, next)
		if next.Status.PoolRef.Name != loc.Status.PoolRef.Name || next.Status.AllocatedCIDR == a.Status.AllocatedCIDR {
			t.Errorf("the next address is %s of %+v, want another one than %s of the location", next.Status.AllocatedCIDR, next.Status.PoolRef, a.Status.AllocatedCIDR)
		}
		r.refuses(net, "claim default/"+name)
		platform.WaitVerified(t)
		r.gone(next)
	}
	r.gone(a, loc, net)
	platform.WaitVerified(t)
}
