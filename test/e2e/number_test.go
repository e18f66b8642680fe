package e2e

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A claim by a class of numbers shows its number, and so does its record. A claim can ask for a number as for an
// address.
func TestNumbers_AreGivenOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	offer(t, s.platform, s.name, s.cidr, gen.Lengths{Min: 32, Max: 32}, gen.DefaultLength(32), gen.Numbers(12))
	shows := func(claim *ipamv1alpha1.IPClaim, want int64) {
		t.Helper()
		framework.WaitBound(t, s.tenant, claim)
		record := &ipamv1alpha1.IPAllocation{}
		key := client.ObjectKey{Namespace: claim.Namespace, Name: claim.Status.BoundAllocationRef.Name}
		must.Do(t, s.tenant.Get(t.Context(), key, record))
		for where, got := range map[string]*int64{"claim": claim.Status.Number, "record": record.Status.Number} {
			if got == nil || *got != want {
				t.Errorf("the %s of %s shows %v; want number %d", where, claim.Status.AllocatedCIDR, got, want)
			}
		}
	}
	first := gen.Claim("first", gen.OfClass(s.name))
	framework.Create(t, s.tenant, first)
	shows(first, 0)
	asked := gen.Claim("asked", gen.OfClass(s.name), gen.Number(100))
	framework.Create(t, s.tenant, asked)
	shows(asked, 100)
	again := gen.Claim("again", gen.OfClass(s.name), gen.Number(100))
	framework.Create(t, s.tenant, again)
	framework.WaitAllocated(t, s.tenant, again, ipamv1alpha1.ReasonAddressInUse)
	framework.Delete(t, s.tenant, asked)
	shows(again, 100)
	for number, reason := range map[int64]ipamv1alpha1.Reason{0: ipamv1alpha1.ReasonAddressInUse, 1 << 12: ipamv1alpha1.ReasonAddressOutOfRange} {
		refused := gen.Claim(fmt.Sprint("refused-", number), gen.OfClass(s.name), gen.Number(number))
		framework.Create(t, s.tenant, refused)
		framework.WaitAllocated(t, s.tenant, refused, reason)
	}
}
