package e2e

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// What was allocated stays as it was recorded, whatever becomes of the class and the pool
// by which it was. New claims follow the new rules.
func TestRecorded_OutlivesItsClass(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	class := s.class(gen.Lengths{Min: 24, Max: 28}, gen.DefaultLength(26))
	pool := s.pool(s.cidr)
	before := s.holds("before")
	record := recordOf(t, s.tenant, before)

	s.changeClass(func(spec *ipamv1alpha1.IPClassSpec) {
		spec.AllowedPrefixLengths = &ipamv1alpha1.PrefixLengthRange{Min: 29, Max: 30}
		spec.DefaultPrefixLength = 30
		spec.ReclaimPolicy = ipamv1alpha1.ReclaimRetain
		spec.Strategy = ipamv1alpha1.LeastUtilized
	})
	framework.WaitFor(t, s.platform, class, func(class *ipamv1alpha1.IPClass) error {
		if class.Status.ObservedGeneration != class.Generation {
			return errors.New("the change is not observed")
		}
		return nil
	})
	after := s.holds("after")
	if got := blockOf(t, after); got.Bits() != 30 || recordOf(t, s.tenant, after).Spec.ReclaimPolicy != ipamv1alpha1.ReclaimRetain {
		t.Errorf("the claim after the change got %s; want a /30, to be retained", got)
	}
	tooLarge := gen.Claim("too-large", gen.OfClass(s.name), gen.Length(26))
	framework.Create(t, s.tenant, tooLarge)
	framework.WaitAllocated(t, s.tenant, tooLarge, ipamv1alpha1.ReasonPrefixLengthRejected)
	s.same(before, record)

	framework.Delete(t, s.platform, class)
	framework.WaitAllocated(t, s.tenant, tooLarge, ipamv1alpha1.ReasonClassNotFound)
	s.same(before, record)
	s.changePool(func(spec *ipamv1alpha1.IPPoolSpec) {
		spec.ClassNames = []string{"another"}
		spec.Allocation = ipamv1alpha1.PoolAllocation{MinPrefixLength: 30, MaxPrefixLength: 32}
		spec.Visibility = ipamv1alpha1.VisibilityConsumer
	})
	waitHeld(t, s.platform, pool, size(blockOf(t, before), blockOf(t, after)))
	s.same(before, record)

	// A change of the claim itself is recorded, and what the class had said stays.
	s.reclaims(after, ipamv1alpha1.ReclaimDelete)
	framework.WaitFor(t, s.tenant, recordOf(t, s.tenant, after), func(record *ipamv1alpha1.IPAllocation) error {
		if record.Spec.ReclaimPolicy != ipamv1alpha1.ReclaimDelete || record.Spec.ClassName != s.name {
			return errors.New("it does not record the claim's policy and its class")
		}
		return nil
	})
	framework.Delete(t, s.tenant, before, after)
	waitUnrecorded(t, s.tenant, "before")
	waitUnrecorded(t, s.tenant, "after")
	waitHeld(t, s.platform, pool, size())
}

// same fails the test if a claim or its record was written since they were read.
func (s scene) same(claim *ipamv1alpha1.IPClaim, record *ipamv1alpha1.IPAllocation) {
	s.Helper()
	unchanged(s.T, s.tenant, claim)
	now := &ipamv1alpha1.IPAllocation{}
	must.Do(s, s.tenant.Get(s.Context(), client.ObjectKeyFromObject(record), now))
	if diff := cmp.Diff(record, now); diff != "" {
		s.Errorf("the record of claim %s has changed (-before +now):\n%s", claim.Name, diff)
	}
}
