//go:build long

package e2e

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A slice stays where it is, whatever happens to the controller or to the slice's status. A workspace that has given
// up its slice gets no other.
func TestLong_SlicesStayThroughARestart(t *testing.T) {
	t.Parallel()
	s := slicedOn(t, framework.NewPlatform(t))
	s.platform.StartController(t)
	s.offer(t, gen.Slices(24))
	one, two := s.member("one"), s.member("two")
	s.slice(one)
	held := s.slice(two)
	deleteUnused(t, one, s.slice(one)) // a new slice would be lower than the one that is held
	waitHeld(t, s.platform, s.pool, size(spaceOf(t, held)))

	s.platform.KillController(t)
	must.Do(t, framework.System(t, two.Path).Status().Patch(t.Context(), held.DeepCopy(), merge(`{"status": null}`)))
	s.platform.StartController(t)
	after := s.slice(s.member("three"))
	if again := s.slice(two); again.UID != held.UID || again.Status.AllocatedCIDR != held.Status.AllocatedCIDR {
		t.Errorf("the slice was %s, and is %s now", held.Status.AllocatedCIDR, again.Status.AllocatedCIDR)
	}
	waitHeld(t, s.platform, s.pool, size(spaceOf(t, held), spaceOf(t, after)))
	s.hasNone(one)
}

// As many pools as may share a domain all show every claim in it. However many claims there are, these pools take
// turns when their statuses are written, and then show everything.
func TestLong_DomainPoolsTakeTurnsToBeWritten(t *testing.T) {
	t.Parallel()
	const claims = 40
	const apart = 150 * time.Millisecond // between two turns
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	tenant := platform.Tenant(t)
	pools := make([]*ipamv1alpha1.IPPool, ledger.MaxSpacePools)
	for i := range pools {
		pools[i] = gen.Pool(fmt.Sprint("pool-", i), gen.CIDR("10.0.0.0/16"), gen.Domain("d"))
		framework.Create(t, tenant, pools[i])
	}
	for _, pool := range pools {
		framework.WaitAllocated(t, tenant, pool, ipamv1alpha1.ReasonAllocationSucceeded)
	}
	waitIdle(t, platform, 0)
	before, began := readMeters(t, platform), time.Now()
	blocks, unanswered := make([]netip.Prefix, claims), 0
	for i := range claims {
		claim := gen.Claim(fmt.Sprint("claim-", i), gen.FromPool(pools[i].Name), gen.Length(28))
		framework.Create(t, tenant, claim)
		if claim.Status.AllocatedCIDR == "" {
			unanswered++
		}
		framework.WaitBound(t, tenant, claim)
		blocks[i] = blockOf(t, claim)
	}
	for _, pool := range pools {
		waitHeld(t, tenant, pool, size(blocks...))
	}
	turns := int(time.Since(began)/apart) + 1
	// A claim whose CREATE was answered is not patched.
	writes := readMeters(t, platform).since(before).writes["PATCH 200"] - unanswered
	t.Logf("%d writes of pools for %d claims, in %d turns", writes, claims, turns)
	if writes < len(pools) || writes > len(pools)+turns {
		t.Errorf("%d pools were written %d times for %d claims, in %d turns; want one a turn, and one more of each at most", len(pools), writes, claims, turns)
	}
}

// A lease that was set under one leader ends under the next leader, which knows it only from the ledger. A retained
// block is reused there.
func TestLong_LeaseEndsAfterAFailover(t *testing.T) {
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
