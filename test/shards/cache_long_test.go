//go:build long

package shards

import (
	"fmt"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A cache server that starts over without data knows no export, no webhook and no policy. A shard that starts again then has
// none either, until the others start again, too. Nothing is taken for deleted meanwhile. A claim that a tenant stores there with
// the block of another loses that, and gets one of its own: one that was sent in that time, and one whose body was held back
// over an unbinding, too.
func TestLong_CacheServerStartsEmpty(t *testing.T) {
	s := newScene(t)
	forged := func(name string) *ipamv1alpha1.IPClaim {
		claim := gen.Claim(name, gen.OfClass(s.pool.Name), gen.Length(28))
		claim.UID, claim.Status = "", s.far[0].Status
		return claim
	}
	thief := s.platform.TenantOn(t, framework.OtherShard)
	heldBack := forged("held-back")
	held := framework.HoldBack(t, thief.OwnerConfig(t), "namespaces/default/ipclaims", "IPClaim", heldBack)
	thief.Leave(t)
	framework.EmptyCacheServer(t)
	held.End(t)
	framework.KillShard(t, framework.OtherShard)
	framework.StartShard(t, framework.OtherShard)

	var sent []*ipamv1alpha1.IPClaim
	for i := range 5 {
		claim := forged(fmt.Sprint("sent-", i))
		framework.Create(t, s.there, claim)
		if got, want := claim.Status.AllocatedCIDR, s.far[0].Status.AllocatedCIDR; got != want {
			t.Errorf("a claim that was sent with %s is stored with %q: the shard knows webhooks or policies", want, got)
		}
		sent = append(sent, claim)
	}
	s.platform.WaitSwept(t, 8)
	framework.KillShard(t, framework.RootShard)
	framework.StartShard(t, framework.RootShard)
	framework.WaitCacheServer(t)

	thief.Bind(t)
	framework.WaitBound(t, thief, heldBack)
	framework.WaitBound(t, s.there, sent...)
	s.platform.WaitSwept(t, 8)
	s.far = append(s.far, sent...)
	s.near = append(s.near, s.more(s.here, 1)...)
	s.holds(heldBack)
	s.unchanged(s.here, s.near)
	s.unchanged(s.there, s.far)
	s.platform.WaitVerified(t)
}
