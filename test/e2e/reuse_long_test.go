//go:build long

package e2e

import (
	"testing"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// The controller is killed when the ledger has the block for the new claim, and the record of the
// former one is there still. The next one replaces the record; nothing is freed.
func TestLong_ReuseKilledBetweenLedgerAndRecord(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t).Replica(t, "sweeping", sweeping...)
	platform.StartController(t)
	s := scene{T: t, platform: platform, tenant: platform.Tenant(t), name: framework.Name(t), cidr: platform.CIDR(t)}
	s.class(gen.Reclaim(ipamv1alpha1.ReclaimRetain), gen.Lease("1h"), gen.OnRetained(ipamv1alpha1.RetainedReuse))
	pool := s.pool(s.cidr)
	former, gone := s.holds("web", gen.Length(28)), s.holds("gone", gen.Length(28))
	framework.Delete(t, s.tenant, former, gone)
	old := s.retained(former)
	s.retained(gone)

	platform.KillController(t)
	claim := gen.Claim("web", gen.OfClass(s.name), gen.Length(28))
	vanishes := gen.Claim("gone", gen.OfClass(s.name), gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimDelete))
	framework.Create(t, s.tenant, claim, vanishes)
	s.reusedInTheLedger(former, claim)
	s.reusedInTheLedger(gone, vanishes)
	framework.Delete(t, s.tenant, vanishes)
	platform.StartController(t)

	framework.WaitBound(t, s.tenant, claim)
	if claim.Status.AllocatedCIDR != former.Status.AllocatedCIDR {
		t.Errorf("the claim got %s, want %s", claim.Status.AllocatedCIDR, former.Status.AllocatedCIDR)
	}
	if now := recordOf(t, s.tenant, claim); now.UID == old.UID || now.Spec.ClaimRef == nil || now.Spec.ClaimRef.UID != claim.UID {
		t.Errorf("the record is %+v, want that of the new claim", now)
	}
	waitUnrecorded(t, s.tenant, "gone")
	waitHeld(t, platform, pool, size(blockOf(t, claim)))
	platform.WaitSwept(t, 3)
	waitHeld(t, platform, pool, size(blockOf(t, claim)))
	platform.WaitVerified(t)
}

// reusedInTheLedger gives the retained block of a claim to another one, in the ledger of a controller
// that does not run.
func (s scene) reusedInTheLedger(former, claim *ipamv1alpha1.IPClaim) {
	s.Helper()
	etcd := etcdtest.NewWith(s, embedetcd.Options{Dir: s.platform.LedgerDir()})
	defer etcd.Stop()
	alloc, err := allocator.Open(s.Context(), etcd.Client(), allocator.Options{})
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = alloc.Close() }()
	block, _, err := alloc.Lookup(s.Context(), ledger.ClaimID(former.UID))
	if err != nil {
		s.Fatal(err)
	}
	to := allocator.Successor{Holder: block.Holder, Policy: ledger.ReclaimPolicy(claim.Spec.ReclaimPolicy)}
	to.Holder.Claim = ledger.ClaimID(claim.UID)
	if _, err := alloc.Retained().Reuse(s.Context(), block, to); err != nil {
		s.Fatal(err)
	}
}
