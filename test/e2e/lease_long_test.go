//go:build long

package e2e

import (
	"testing"
	"time"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A lease that was set under one leader ends under the next, which has it from the ledger alone, and
// a retained block is reused there.
func TestLong_LeaseAfterAFailover(t *testing.T) {
	t.Parallel()
	h := newHA(t)
	platform := h.replicas[0]
	s := scene{T: t, platform: platform, tenant: h.tenant, name: h.class, cidr: platform.CIDR(t)}
	s.observedClass(func(spec *ipamv1alpha1.IPClassSpec) {
		spec.RetentionLease = "10s"
	})
	retain := gen.Reclaim(ipamv1alpha1.ReclaimRetain)
	ends := s.holds("ends", gen.Length(28), retain)
	framework.Delete(t, s.tenant, ends)
	record := s.retained(ends)
	s.observedClass(func(spec *ipamv1alpha1.IPClassSpec) { spec.RetentionLease = "" })
	kept := s.holds("kept", gen.Length(28), retain)
	framework.Delete(t, s.tenant, kept)
	s.retained(kept)

	leader := h.replicas.Leader(t)
	leader.KillController(t)
	h.replicas.Leader(t, leader)
	framework.WaitGone(t, s.tenant, record.DeepCopy())
	if now := time.Now(); now.Before(record.Status.Expires.Time) {
		t.Errorf("the record is gone at %s, before its lease ends at %s", now, record.Status.Expires)
	}
	again := s.holds("kept", gen.Length(28), gen.OnRetained(ipamv1alpha1.RetainedReuse))
	if again.Status.AllocatedCIDR != kept.Status.AllocatedCIDR {
		t.Errorf("the claim got %s, want %s", again.Status.AllocatedCIDR, kept.Status.AllocatedCIDR)
	}
	waitHeld(t, platform, gen.Pool(h.class), size(blockOf(t, again)))
}
