package e2e

import (
	"fmt"
	"testing"

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
