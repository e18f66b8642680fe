package e2e

import (
	"fmt"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A pool joins a domain and leaves it while it is empty, and is refused both while it is
// in use. Outside of a domain it may not overlap others.
func TestDomain_JoinAndLeave(t *testing.T) {
	t.Parallel()
	tenant := framework.SharedPlatform(t).Tenant(t)
	older, newer := gen.Pool("older", gen.CIDR("10.0.0.0/24")), gen.Pool("newer", gen.CIDR("10.0.0.0/24"), gen.Domain("d"))
	framework.Allocate(t, tenant, older)
	framework.Create(t, tenant, newer)
	framework.WaitAllocated(t, tenant, newer, ipamv1alpha1.ReasonOverlap)

	joins := func(domain string) func(*ipamv1alpha1.IPPool) {
		return func(pool *ipamv1alpha1.IPPool) { pool.Spec.AddressDomain = domain }
	}
	framework.Update(t, tenant, older, joins("d"))
	framework.WaitAllocated(t, tenant, newer, ipamv1alpha1.ReasonAllocationSucceeded)
	first, second := gen.Claim("first", gen.FromPool("older"), gen.Length(25)), gen.Claim("second", gen.FromPool("newer"), gen.Length(25))
	framework.Bind(t, tenant, first, second)
	disjointIn(t, "10.0.0.0/24", blockOf(t, first), blockOf(t, second))

	for _, domain := range []string{"", "e"} {
		framework.WaitCondition(t, tenant, older, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonInUse)
		err := tenant.Patch(t.Context(), older.DeepCopy(), merge(fmt.Sprintf(`{"spec": {"addressDomain": %q}}`, domain)))
		isRefused(t, err, "spec.addressDomain", "put a pool in use in the domain %q", domain)
	}
	framework.Delete(t, tenant, first)
	framework.WaitCondition(t, tenant, older, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonUnused)
	framework.Update(t, tenant, older, joins(""))
	framework.WaitAllocated(t, tenant, older, ipamv1alpha1.ReasonOverlap)
	if status := older.Status; status.AllocatedCIDR != "" || status.Phase != ipamv1alpha1.PoolError {
		t.Errorf("the status of a pool that was refused is %+v", status)
	}
	framework.WaitBound(t, tenant, second)
	framework.Delete(t, tenant, second)
	deleteUnused(t, tenant, newer)
	framework.WaitAllocated(t, tenant, older, ipamv1alpha1.ReasonAllocationSucceeded)
	deleteUnused(t, tenant, older)
}
