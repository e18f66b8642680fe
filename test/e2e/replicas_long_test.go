//go:build long

package e2e

import (
	"slices"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/framework/wire"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// If kcp asks a standby, that forwards to the leader, and CREATE is answered, whatever other claims wait for. When
// the leader stops, the standby answers by itself.
func TestLong_ReplicasForwardFromTheStandby(t *testing.T) {
	t.Parallel()
	address := must.Get(wire.New())(t)
	must.Ends(t, address.Close)
	h := newHA(t, "--webhook-url=https://"+address.Addr())
	leader := h.replicas.Leader(t)
	standby := h.replicas[slices.IndexFunc(h.replicas, func(r *framework.Platform) bool { return r != leader })]
	address.Add("127.0.0.1:" + standby.WebhookPort(t))
	standby.WaitAsked(t, h.tenant)

	forwarded := standby.AnswersGiven(t)
	taken := answered(t, h.tenant, gen.Claim("holds", gen.OfClass(h.class), gen.Length(28)), create)
	waits := answered(t, h.tenant, gen.Claim("waits", gen.OfClass(h.class), gen.Address(taken.Status.AllocatedCIDR)), create)
	framework.WaitAllocated(t, h.tenant, waits, ipamv1alpha1.ReasonAddressInUse)
	for _, name := range names("beside-a-waiting-one-", 8) {
		if claim := answered(t, h.tenant, gen.Claim(name, gen.OfClass(h.class), gen.Length(28)), create); claim.Status.Phase != ipamv1alpha1.ClaimBound {
			t.Errorf("CREATE of %s through the standby is answered %+v, want it bound", name, claim.Status)
		}
	}
	if now := standby.AnswersGiven(t); now < forwarded+10 {
		t.Errorf("kcp has asked the standby %d times, want at least 10", now-forwarded)
	}
	if now := leader.AnswersGiven(t); now != 0 {
		t.Errorf("kcp has asked the leader %d times, want never", now)
	}

	t.Log("the leader is stopped")
	leader.StopController(t)
	h.replicas.Leader(t, leader)
	if claim := answered(t, h.tenant, gen.Claim("after-a-stop", gen.OfClass(h.class), gen.Length(28)), create); claim.Status.Phase != ipamv1alpha1.ClaimBound {
		t.Errorf("CREATE at the new leader is answered %+v, want it bound", claim.Status)
	}
	standby.WaitVerified(t, h.store.Flags()...)
}
