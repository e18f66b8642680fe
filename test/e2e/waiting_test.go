package e2e

import (
	"fmt"
	"testing"
	"time"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A claim waits for every pool that could serve it, and is served by one. What becomes
// free in the others is for the next in line.
func TestWaiting_ForSeveralPools(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	for _, pool := range []*ipamv1alpha1.IPPool{
		gen.Pool("a", gen.CIDR("10.1.0.0/28"), gen.Backs(s.name)), gen.Pool("b", gen.CIDR("10.2.0.0/28"), gen.Backs(s.name)),
	} {
		framework.Create(t, s.tenant, pool)
		framework.WaitAllocated(t, s.tenant, pool, ipamv1alpha1.ReasonAllocationSucceeded)
	}
	inA, inB := s.holds("in-a", gen.Length(28)), s.holds("in-b", gen.Length(28))
	var waits []*ipamv1alpha1.IPClaim
	for i := range 3 {
		claim := gen.Claim(fmt.Sprintf("waits-%d", i), gen.OfClass(s.name), gen.Length(28))
		framework.Create(t, s.tenant, claim)
		framework.WaitAllocated(t, s.tenant, claim, ipamv1alpha1.ReasonPoolExhausted)
		s.later(claim)
		waits = append(waits, claim)
	}
	framework.Delete(t, s.tenant, inB, inA)
	framework.WaitBound(t, s.tenant, waits[0], waits[1])
	if waits[0].Status.PoolRef.Name == waits[1].Status.PoolRef.Name {
		t.Errorf("both were served by pool %s", waits[0].Status.PoolRef.Name)
	}
	framework.Delete(t, s.tenant, waits[0])
	framework.WaitBound(t, s.tenant, waits[2])
}

// A claim that leaves the line, or never comes for what is held for it, holds up nobody.
func TestWaiting_SomebodyLeaves(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.ownPool(gen.CIDR("10.0.0.0/28"))
	holder := gen.Claim("holder", gen.FromPool("own"), gen.Length(28))
	framework.Create(t, s.tenant, holder)
	framework.WaitBound(t, s.tenant, holder)
	leaves, alsoLeaves, stays := s.waits("leaves", 28), s.waits("also-leaves", 28), s.waits("stays", 28)

	framework.Delete(t, s.tenant, leaves)
	framework.Delete(t, s.tenant, holder)
	framework.Delete(t, s.tenant, alsoLeaves)
	framework.WaitBound(t, s.tenant, stays)
}

// Whatever changes the answer to a claim that waits wakes it, for the better or not.
func TestWaiting_AnswerChanges(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pool := s.ownPool(gen.CIDR("10.0.0.0/28"), gen.Excludes("10.0.0.0/28"))
	claim := s.waits("web", 28)

	for _, step := range []struct {
		patch  string
		reason ipamv1alpha1.Reason
	}{
		{`{"spec": {"allocation": {"minPrefixLength": 30}}}`, ipamv1alpha1.ReasonPrefixLengthRejected},
		{`{"spec": {"allocation": {"minPrefixLength": null}}}`, ipamv1alpha1.ReasonPoolExhausted},
	} {
		if err := s.tenant.Patch(t.Context(), pool, merge(step.patch)); err != nil {
			t.Fatalf("Patch: %v", err)
		}
		framework.WaitAllocated(t, s.tenant, claim, step.reason)
	}
	deleteUnused(t, s.tenant, pool)
	framework.WaitAllocated(t, s.tenant, claim, ipamv1alpha1.ReasonPoolNotFound)
	s.ownPool(gen.CIDR("10.0.0.0/28"))
	framework.WaitBound(t, s.tenant, claim)
}

// When a pool comes for which many wait, the oldest are served.
func TestWaiting_PoolComes(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var old, young []*ipamv1alpha1.IPClaim
	for i := range 20 {
		claim := gen.Claim(fmt.Sprintf("old-%d", i), gen.FromPool("own"), gen.Length(32))
		framework.Create(t, s.tenant, claim)
		old = append(old, claim)
	}
	s.later(old[len(old)-1])
	for i := range 20 {
		claim := gen.Claim(fmt.Sprintf("young-%d", i), gen.FromPool("own"), gen.Length(32))
		framework.Create(t, s.tenant, claim)
		young = append(young, claim)
	}
	for _, claim := range append(old, young...) {
		framework.WaitAllocated(t, s.tenant, claim, ipamv1alpha1.ReasonPoolNotFound)
	}
	// A pass that kcp has answered with a 404 is repeated after a second. It would find the pool by itself.
	s.past(young[len(young)-1], 3*time.Second)
	framework.Create(t, s.tenant, gen.Pool("own", gen.CIDR("10.0.0.0/28")))
	for _, claim := range young {
		framework.WaitAllocated(t, s.tenant, claim, ipamv1alpha1.ReasonPoolExhausted)
	}
	bound := 0
	for _, claim := range old {
		framework.Read(t, s.tenant, claim)
		if claim.Status.Phase == ipamv1alpha1.ClaimBound {
			bound++
		}
	}
	if bound != 16 {
		t.Errorf("%d of the old claims are bound; want 16, as many as the pool has addresses", bound)
	}
}
