package e2e

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A claim that names no class gets a default class: that of its family, else the only one, else that of IPv4. A
// default that is only for other workspaces does not count. The test has its own platform, because a default affects
// everybody.
func TestDefaultClass(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	tenant := platform.Tenant(t)
	claims := func(name, class string, options ...gen.ClaimOption) {
		t.Helper()
		claim := answered(t, tenant, gen.Claim(name, options...), create)
		if claim.Status.ClassName != class || claim.Status.AllocatedCIDR == "" {
			t.Errorf("claim %s is answered %+v; want a block by class %s", name, claim.Status, class)
		}
	}

	waits := gen.Claim("waits")
	waitsForIPv4 := gen.Claim("waits-for-ipv4", gen.Family(ipamv1alpha1.IPv4))
	framework.Create(t, tenant, waits, waitsForIPv4)
	framework.WaitAllocated(t, tenant, waits, ipamv1alpha1.ReasonNoDefaultClass)
	showsRefusal(t, waits, "no default class", false)
	framework.WaitAllocated(t, tenant, waitsForIPv4, ipamv1alpha1.ReasonNoDefaultClass)
	showsRefusal(t, waitsForIPv4, "no default IPv4 class", false)

	favoured, theirs, missing := platform.Tenant(t), gen.Claim("theirs"), gen.Claim("missing")
	offer(t, platform, "others", "10.3.0.0/16", gen.DefaultLength(28), gen.Default(), gen.Consumers{ipamv1alpha1.Consumer(favoured.Path)})
	framework.Bind(t, favoured, theirs)
	framework.Create(t, tenant, missing)
	framework.WaitAllocated(t, tenant, missing, ipamv1alpha1.ReasonNoDefaultClass)
	if diff := cmp.Diff(plain(waits), plain(missing)); diff != "" {
		t.Errorf("a default class that may not be used does not look missing (-missing +forbidden):\n%s", diff)
	}
	unchanged(t, tenant, waits)
	framework.Delete(t, platform, gen.Class("others"))

	offer(t, platform, "six", "2001:db8::/64", gen.Family(ipamv1alpha1.IPv6), gen.DefaultLength(80), gen.Default())
	framework.WaitBound(t, tenant, waits)
	if waits.Status.ClassName != "six" {
		t.Errorf("the claim was met by class %s; want six, the only default", waits.Status.ClassName)
	}
	framework.WaitAllocated(t, tenant, waitsForIPv4, ipamv1alpha1.ReasonNoDefaultClass)

	offer(t, platform, "four", "10.4.0.0/16", gen.DefaultLength(28), gen.Default())
	framework.WaitBound(t, tenant, waitsForIPv4)
	claims("of-no-family", "four")
	claims("of-ipv6", "six", gen.Family(ipamv1alpha1.IPv6))

	// If both were made in the same second, the second class is the later one by its name.
	offer(t, platform, "four-later", "10.5.0.0/16", gen.DefaultLength(28), gen.Default())
	later, first := gen.Class("four-later"), gen.Class("four")
	framework.WaitCondition(t, platform, later, ipamv1alpha1.ConditionReady, ipamv1alpha1.ReasonDefaultConflict)
	framework.WaitCondition(t, platform, first, ipamv1alpha1.ConditionReady, ipamv1alpha1.ReasonValidated)
	claims("with-two-defaults", "four")

	framework.Delete(t, platform, first)
	framework.WaitCondition(t, platform, later, ipamv1alpha1.ConditionReady, ipamv1alpha1.ReasonValidated)
	claims("with-the-later-default", "four-later")
}

func waitOffering(t *testing.T, platform *framework.Platform, class string, pools int32) {
	t.Helper()
	framework.WaitWhile(t, platform, gen.Class(class), fmt.Sprintf("it does not count %d pools", pools), func(class *ipamv1alpha1.IPClass) bool {
		return class.Status.OfferingPools != pools
	})
}

// An allocation stays as it was recorded, whatever happens to its class and its pool. New claims follow the new
// rules.
func TestRecorded_OutlivesItsClass(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	class := s.class(gen.Lengths{Min: 24, Max: 28}, gen.DefaultLength(26))
	pool := s.pool(s.cidr)
	before := s.holds("before")
	record := recordOf(t, s.tenant, before)

	s.observedClass(func(spec *ipamv1alpha1.IPClassSpec) {
		spec.AllowedPrefixLengths = &ipamv1alpha1.PrefixLengthRange{Min: 29, Max: 30}
		spec.DefaultPrefixLength = 30
		spec.ReclaimPolicy = ipamv1alpha1.ReclaimRetain
		spec.Strategy = ipamv1alpha1.LeastUtilized
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

	// A change of the claim itself is recorded, and the fields that came from the class stay.
	s.reclaims(after, ipamv1alpha1.ReclaimDelete)
	framework.WaitWhile(t, s.tenant, recordOf(t, s.tenant, after), "it does not record the claim's policy and its class", func(record *ipamv1alpha1.IPAllocation) bool {
		return record.Spec.ReclaimPolicy != ipamv1alpha1.ReclaimDelete || record.Spec.ClassName != s.name
	})
	framework.Delete(t, s.tenant, before, after)
	waitUnrecorded(t, s.tenant, "before")
	waitUnrecorded(t, s.tenant, "after")
	waitHeld(t, s.platform, pool, size())
}

// same fails the test if a claim or its record has been written since they were read.
func (s scene) same(claim *ipamv1alpha1.IPClaim, record *ipamv1alpha1.IPAllocation) {
	s.Helper()
	unchanged(s.T, s.tenant, claim)
	now := &ipamv1alpha1.IPAllocation{}
	must.Do(s, s.tenant.Get(s.Context(), client.ObjectKeyFromObject(record), now))
	if diff := cmp.Diff(record, now); diff != "" {
		s.Errorf("the record of claim %s has changed (-before +now):\n%s", claim.Name, diff)
	}
}
