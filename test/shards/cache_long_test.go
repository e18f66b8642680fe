//go:build long

package shards

import (
	"fmt"
	"testing"
	"time"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A cache server that starts without data knows no export, no webhook and no policy. If a shard starts again then, it
// has none either, until the other shards start again, too. Nothing is taken for deleted meanwhile. A claim that a
// tenant stores there with another claim's block loses that block, and gets a block of its own. So does a claim whose
// body was held back over an unbinding.
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

// An endpoint slice that is made while a shard is away does not list that shard. Nothing that is held there is freed.
func TestLong_PartitionFreesNothingOnAShardThatIsLeftOut(t *testing.T) {
	s := newScene(t)
	framework.KillShard(t, framework.OtherShard)
	s.remake(1)
	s.platform.WaitSwept(t, 12)
	s.holds()
	framework.StartShard(t, framework.OtherShard)
	s.keeps()
}

// While the platform's shard is away for longer than a replica goes without any answer, CREATE is answered in
// workspaces of the other shard, and the controller is ready.
func TestLong_ThePlatformAway(t *testing.T) {
	s := newScene(t)
	framework.KillShard(t, framework.RootShard)
	back := false
	restore := func() {
		if !back {
			framework.StartShard(t, framework.RootShard)
		}
		back = true
	}
	defer restore() // other tests on this kcp need the shard, too
	killed := time.Now()
	answered := func(age time.Duration) error {
		claim := gen.Claim("", gen.OfClass(s.pool.Name), gen.Length(28))
		claim.GenerateName = "away-"
		if err := s.there.Create(t.Context(), claim); err != nil {
			return err
		}
		s.far = append(s.far, claim)
		if claim.Status.Phase != ipamv1alpha1.ClaimBound {
			return fmt.Errorf("after %s the CREATE of claim %s has no answer", age, claim.Name)
		}
		return nil
	}
	const long = 40 * time.Second // a replica is blind after 30 seconds without an answer
	for age := time.Duration(0); age < long; age = time.Since(killed) {
		must.Do(t, answered(age))
		retry.Pause(t.Context(), time.Second)
	}
	must.Do(t, answered(long))
	if err := s.platform.Probe(t.Context(), "/readyz"); err != nil {
		t.Errorf("the controller is not ready after %s: %v; want it ready", long, err)
	}
	restore()
	s.keeps()
}

// Each shard asks the webhooks that are registered in the platform workspace, which is on one of them.
func TestLong_WebhooksAreAskedByEachShard(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	platform.WaitWebhooks(t, platform.TenantOn(t, framework.RootShard), platform.TenantOn(t, framework.OtherShard))
}
