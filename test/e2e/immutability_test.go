package e2e

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
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

// A class that is made again under the name of one that is gone is another class, even of another
// family: what the former gave stays.
func TestRecorded_OutlivesItsNamesake(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	class := s.class()
	s.pool(s.cidr)
	before := s.holds("before", gen.Length(28))
	record := recordOf(t, s.tenant, before)
	framework.Delete(t, s.platform, class)
	framework.WaitGone(t, s.platform, class)
	s.class(gen.Family(ipamv1alpha1.IPv6))
	six := platformPool(s.name+"-six", "2001:db8:6::/64", s.name)
	framework.Create(t, s.platform, six)

	after := s.holds("after", gen.Length(80))
	disjointIn(t, six.Spec.CIDR, blockOf(t, after))
	s.same(before, record)
}

// same fails the test if a claim or its record was written since they were read.
func (s scene) same(claim *ipamv1alpha1.IPClaim, record *ipamv1alpha1.IPAllocation) {
	s.Helper()
	unchanged(s.T, s.tenant, claim)
	now := &ipamv1alpha1.IPAllocation{}
	if err := s.tenant.Get(s.Context(), client.ObjectKeyFromObject(record), now); err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(record, now); diff != "" {
		s.Errorf("the record of claim %s has changed (-before +now):\n%s", claim.Name, diff)
	}
}
