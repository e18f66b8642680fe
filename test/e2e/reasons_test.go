package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A claim that cannot be met says why, and binds by itself when the cause is gone. Each row arranges the objects,
// makes a claim, and returns how to remove the cause.
func TestReasons(t *testing.T) {
	t.Parallel()
	all := newScene(t)
	for name, row := range map[string]struct {
		arrange func(scene) (claim *ipamv1alpha1.IPClaim, mend func())
		reason  ipamv1alpha1.Reason
		says    string // part of the message
		stalled bool   // nobody but the user can end it
	}{
		"class missing": {
			reason: ipamv1alpha1.ReasonClassNotFound, says: `no class "{name}"`,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				return gen.Claim(s.name, gen.OfClass(s.name), gen.Length(28)), func() {
					s.pool(s.cidr)
					s.class()
				}
			},
		},
		"provisioner unknown": {
			reason: ipamv1alpha1.ReasonUnknownProvisioner, says: `"example.com/other"`,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				class := s.class(gen.Provisioner("example.com/other"))
				s.pool(s.cidr)
				framework.WaitCondition(s, s.platform, class, ipamv1alpha1.ConditionReady, ipamv1alpha1.ReasonUnknownProvisioner)
				return gen.Claim(s.name, gen.OfClass(s.name), gen.Length(28)), func() {
					s.changeClass(func(spec *ipamv1alpha1.IPClassSpec) { spec.Provisioner = ipamv1alpha1.NativeProvisioner })
				}
			},
		},
		"length out of the class's range": {
			reason: ipamv1alpha1.ReasonPrefixLengthRejected, says: "/24 to /26", stalled: true,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.class(gen.Lengths{Min: 24, Max: 26})
				s.pool(s.cidr)
				return gen.Claim(s.name, gen.OfClass(s.name), gen.Length(28)), func() {
					s.changeClass(func(spec *ipamv1alpha1.IPClassSpec) { spec.AllowedPrefixLengths.Max = 28 })
				}
			},
		},
		"family of another class": {
			reason: ipamv1alpha1.ReasonFamilyMismatch, says: "address family IPv4 does not match", stalled: true,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				class := s.class(gen.Family(ipamv1alpha1.IPv6))
				s.pool(s.cidr)
				return gen.Claim(s.name, gen.OfClass(s.name), gen.Family(ipamv1alpha1.IPv4), gen.Length(28)), func() {
					framework.Delete(s, s.platform, class)
					s.class()
				}
			},
		},
		"address in no pool, until there is one": {
			reason: ipamv1alpha1.ReasonAddressOutOfRange, says: "192.0.2.7", stalled: true,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.class()
				s.pool(s.cidr)
				return gen.Claim(s.name, gen.OfClass(s.name), gen.Address("192.0.2.7")), func() {
					framework.Create(s, s.tenant, gen.Pool(s.name, gen.CIDR("192.0.2.0/28"), gen.Backs(s.name)))
				}
			},
		},
		"address in use, until its holder goes": {
			reason: ipamv1alpha1.ReasonAddressInUse, says: "/28",
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.class()
				s.pool(s.cidr)
				holder := s.holds(s.name+"-holder", gen.Length(28))
				return gen.Claim(s.name, gen.OfClass(s.name), gen.Address(holder.Status.AllocatedCIDR)), func() { framework.Delete(s, s.tenant, holder) }
			},
		},
		"pool fragmented, until there is another": {
			reason: ipamv1alpha1.ReasonPoolExhausted, says: "/25",
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.class()
				s.pool(part(s.cidr, 24))
				s.holds(s.name+"-first", gen.Length(28))
				return gen.Claim(s.name, gen.OfClass(s.name), gen.Length(24)), func() {
					framework.Create(s, s.platform, platformPool(s.name+"-more", s.platform.CIDR(s), s.name))
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scene{T: t, platform: all.platform, tenant: all.tenant, name: framework.Name(t), cidr: all.platform.CIDR(t)}
			claim, mend := row.arrange(s)
			framework.Create(t, s.tenant, claim)
			framework.WaitAllocated(t, s.tenant, claim, row.reason)
			showsRefusal(t, claim, strings.ReplaceAll(row.says, "{name}", s.name), row.stalled)
			mend()
			framework.WaitBound(t, s.tenant, claim)
			showsSuccess(t, claim.Status.Conditions)
		})
	}
}

// Many claims of two tenants wait. Each freed block serves exactly one of them, and none of the others is written.
func TestExhaustion_WakesOneWaiterForEachFreedBlock(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	pool := s.pool(part(s.cidr, 27))
	holders := []*ipamv1alpha1.IPClaim{s.holds("first", gen.Length(28)), s.holds("second", gen.Length(28))}
	other := s.platform.Tenant(t)
	for i := range 15 {
		framework.Create(t, s.tenant, gen.Claim(fmt.Sprintf("waits-%d", i), gen.OfClass(s.name), gen.Length(28)))
		framework.Create(t, other, gen.Claim(fmt.Sprintf("waits-%d", i), gen.OfClass(s.name), gen.Length(28)))
	}
	before := map[string]string{}
	framework.Eventually(t, "30 claims to wait", func(context.Context) error {
		before = versionsOf(t, s, other, ipamv1alpha1.ReasonPoolExhausted)
		if len(before) != 30 {
			return fmt.Errorf("%d do", len(before))
		}
		return nil
	})

	for i, holder := range holders {
		framework.Delete(t, s.tenant, holder)
		framework.Eventually(t, "one more claim to be bound", func(context.Context) error {
			if bound := len(versionsOf(t, s, other, ipamv1alpha1.ReasonAllocationSucceeded)); bound != 2 {
				return fmt.Errorf("%d are", bound)
			}
			if waiting := len(versionsOf(t, s, other, ipamv1alpha1.ReasonPoolExhausted)); waiting != 29-i {
				return fmt.Errorf("%d wait", waiting)
			}
			return nil
		})
		waitHeld(t, s.platform, pool, size(prefix(pool.Spec.CIDR))) // and all that follows a release is over
	}
	after := versionsOf(t, s, other, ipamv1alpha1.ReasonPoolExhausted)
	maps.DeleteFunc(after, func(claim, version string) bool { return before[claim] == version })
	if len(after) != 0 {
		t.Errorf("of the claims that wait on, these were written: %v", after)
	}
}

// Every change of the answer to a waiting claim wakes it, for better or worse.
func TestWaiting_ShowsEachChangeOfTheAnswer(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pool := s.ownPool(gen.CIDR("10.0.0.0/28"), gen.Excludes("10.0.0.0/28"))
	claim := gen.Claim("web", gen.FromPool("own"), gen.Length(28))
	framework.Create(t, s.tenant, claim)
	framework.WaitAllocated(t, s.tenant, claim, ipamv1alpha1.ReasonPoolExhausted)
	for _, step := range []struct {
		patch  string
		reason ipamv1alpha1.Reason
	}{
		{`{"spec": {"allocation": {"minPrefixLength": 30}}}`, ipamv1alpha1.ReasonPrefixLengthRejected},
		{`{"spec": {"allocation": {"minPrefixLength": null}}}`, ipamv1alpha1.ReasonPoolExhausted},
	} {
		must.Do(t, s.tenant.Patch(t.Context(), pool, merge(step.patch)))
		framework.WaitAllocated(t, s.tenant, claim, step.reason)
	}
	deleteUnused(t, s.tenant, pool)
	framework.WaitAllocated(t, s.tenant, claim, ipamv1alpha1.ReasonPoolNotFound)
	s.ownPool(gen.CIDR("10.0.0.0/28"))
	framework.WaitBound(t, s.tenant, claim)
}

// unchanged fails the test if a claim has been written since it was read.
func unchanged(t *testing.T, c client.Reader, claim *ipamv1alpha1.IPClaim) {
	t.Helper()
	now := &ipamv1alpha1.IPClaim{}
	must.Do(t, c.Get(t.Context(), client.ObjectKeyFromObject(claim), now))
	if now.ResourceVersion != claim.ResourceVersion {
		t.Errorf("claim %s was written:\nbefore %+v\nafter  %+v", claim.Name, claim.Status, now.Status)
	}
}

// versionsOf lists the claims of both tenants whose answer has this reason, with their resource versions.
func versionsOf(t *testing.T, s scene, other client.Reader, reason ipamv1alpha1.Reason) map[string]string {
	t.Helper()
	found := map[string]string{}
	for of, c := range map[string]client.Reader{"the tenant": s.tenant, "the other": other} {
		list := &ipamv1alpha1.IPClaimList{}
		must.Do(t, c.List(t.Context(), list))
		for _, claim := range list.Items {
			answer := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionAllocated)
			if answer != nil && answer.Reason == string(reason) {
				found[claim.Name+" of "+of] = claim.ResourceVersion
			}
		}
	}
	return found
}
