package e2e

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A claim that names no class gets the default: that of its family, else the only one
// there is, else that of IPv4. A default for others looks as if there were none. The platform is the test's own, as a default
// is everybody's.
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

	// Made in the same second, the second of them is the later one by its name.
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
	framework.WaitFor(t, platform, gen.Class(class), func(class *ipamv1alpha1.IPClass) error {
		if class.Status.OfferingPools != pools {
			return fmt.Errorf("it counts %d pools, not %d", class.Status.OfferingPools, pools)
		}
		return nil
	})
}
