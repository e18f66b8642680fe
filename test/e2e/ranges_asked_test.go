package e2e

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"go4.org/netipx"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// If networks have to be held, a tenant brings the CIDR of its network, and no address is given in a network that no
// claim holds.
func TestRanges_AreBroughtAndHeld(t *testing.T) {
	t.Parallel()
	r := newRangesIn(newScene(t), gen.Held())
	refused := func(claim *ipamv1alpha1.IPClaim, code int32, reason ipamv1alpha1.Reason, says string) {
		t.Helper()
		err := framework.Patiently(t, func(ctx context.Context) error { return r.tenant.Create(ctx, claim) })
		if wrong := refusedWith(err, code, reason, ""); wrong != nil || !strings.Contains(err.Error(), says) {
			t.Errorf("CREATE of claim %s: %v, %v; want a refusal that names %s", claim.Name, err, wrong, says)
		}
	}
	refused(r.endpoint("a", "vpc"), 422, ipamv1alpha1.ReasonRangeNotHeld, "network=vpc")
	waits := r.endpoint("waits", "vpc", gen.Unmet(ipamv1alpha1.UnmetWait))
	framework.Create(t, r.tenant, waits)
	framework.WaitAllocated(t, r.tenant, waits, ipamv1alpha1.ReasonRangeNotHeld)

	root := prefix(r.cidr)
	last := netip.PrefixFrom(netipx.PrefixLastIP(root), 24).Masked()
	net := r.network()
	net.Spec.Address = last.String()
	r.gets(net)
	if net.Status.AllocatedCIDR != net.Spec.Address {
		t.Errorf("the network has %s, want %s", net.Status.AllocatedCIDR, net.Spec.Address)
	}
	framework.WaitBound(t, r.tenant, waits)
	a := r.endpoint("a", "vpc")
	r.gets(a)
	if got := netip.MustParsePrefix(a.Status.AllocatedCIDR); !last.Contains(got.Addr()) {
		t.Errorf("the claim has %s, which is not in %s", got, last)
	}
	other := gen.Claim("other", gen.OfClass(r.name+"-net"), gen.ForRange(), gen.Within("network", "vpc"), gen.Length(25))
	refused(other, 409, ipamv1alpha1.ReasonRangeExists, last.String())
	r.gone(a, waits, net)
}
