package e2e

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A tenant makes a pool by class, and claims from it. The pool waits for a class and a pool of the platform, shows
// where it was carved, cannot be deleted while it is used, and releases its block in the end.
func TestPoolByClass_WaitsServesAndGoes(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pool := gen.Pool("ours", gen.CarvedBy(s.name, 0))
	framework.Create(t, s.tenant, pool)
	framework.WaitAllocated(t, s.tenant, pool, ipamv1alpha1.ReasonClassNotFound)
	class := s.class(gen.Lengths{Min: 22, Max: 28}, gen.DefaultLength(24))
	framework.WaitAllocated(t, s.tenant, pool, ipamv1alpha1.ReasonNoOfferingPool)
	above := platformPool(s.name, s.cidr, s.name)
	framework.Create(t, s.platform, above)
	framework.WaitAllocated(t, s.tenant, pool, ipamv1alpha1.ReasonAllocationSucceeded)

	want := &ipamv1alpha1.PoolRef{Name: s.name, ProjectRef: &ipamv1alpha1.ProjectRef{Name: s.platform.Path}}
	if diff := cmp.Diff(want, pool.Status.ParentPoolRef); diff != "" {
		t.Errorf("status.parentPoolRef (-want +got):\n%s", diff)
	}
	if meta.FindStatusCondition(pool.Status.Conditions, ipamv1alpha1.ConditionOverlapping) != nil {
		t.Error("a pool by class is called overlapping")
	}
	if spaceOf(t, pool).Bits() != int(class.Spec.DefaultPrefixLength) {
		t.Errorf("the pool is %s; want the default length of its class", pool.Status.AllocatedCIDR)
	}
	waitHeld(t, s.platform, above, size(spaceOf(t, pool)))

	first, second := gen.Claim("first", gen.FromPool("ours"), gen.Length(28)), gen.Claim("second", gen.FromPool("ours"), gen.Length(28))
	framework.Bind(t, s.tenant, first, second)
	disjointIn(t, ipamv1alpha1.CIDR(pool.Status.AllocatedCIDR), blockOf(t, first), blockOf(t, second))
	waitHeld(t, s.platform, above, size(spaceOf(t, pool)))
	waitHeld(t, s.tenant, pool, size(blockOf(t, first), blockOf(t, second)))
	isRefused(t, s.tenant.Delete(t.Context(), pool), "the pool holds 2 blocks", "delete a pool by class that is used")

	framework.Delete(t, s.tenant, second, first)
	deleteUnused(t, s.tenant, pool)
	waitHeld(t, s.platform, above, size())
}

// The class's limit counts pools and claims together. A pool that waits for it gets its block when there is room.
// Classes of networks offer no pools.
func TestPoolByClass_CountsForTheLimitOfTheClass(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Lengths{Min: 22, Max: 28}, gen.DefaultLength(24), gen.MaxPerConsumer("256"))
	above := s.pool(s.cidr)
	claim := gen.Claim("claim", gen.OfClass(s.name), gen.Length(28))
	framework.Bind(t, s.tenant, claim)
	pool := gen.Pool("ours", gen.CarvedBy(s.name, 24))
	framework.Create(t, s.tenant, pool)
	framework.WaitAllocated(t, s.tenant, pool, ipamv1alpha1.ReasonQuotaExceeded)
	framework.Delete(t, s.tenant, claim)
	framework.WaitAllocated(t, s.tenant, pool, ipamv1alpha1.ReasonAllocationSucceeded)
	over := gen.Claim("over", gen.OfClass(s.name), gen.Length(28))
	framework.Create(t, s.tenant, over)
	framework.WaitAllocated(t, s.tenant, over, ipamv1alpha1.ReasonQuotaExceeded)
	deleteUnused(t, s.tenant, pool)
	framework.WaitBound(t, s.tenant, over)
	waitHeld(t, s.platform, above, size(blockOf(t, over)))
}

// A pool that asks for a block gets exactly that block or none: from the parent that it names, or by its class. If
// the block is in use, the pool waits for it.
func TestPoolByClass_GetsExactlyTheBlockItAsksFor(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Lengths{Min: 22, Max: 28}, gen.DefaultLength(24))
	s.pool(s.cidr)
	window, err := netip.ParsePrefix(string(s.cidr))
	if err != nil {
		t.Fatal(err)
	}
	block := netip.PrefixFrom(window.Addr(), 25)
	claim := gen.Claim("claim", gen.OfClass(s.name), gen.Address(netip.PrefixFrom(window.Addr(), 28).String()))
	framework.Bind(t, s.tenant, claim)
	pool := gen.Pool("ours", gen.CarvedByAt(s.name, block.String()))
	child := gen.Pool("child", gen.ChildAt("ours", netip.PrefixFrom(window.Addr(), 27).String()))
	rival := gen.Pool("rival", gen.ChildAt("ours", netip.PrefixFrom(window.Addr(), 28).String()))
	outside := gen.Pool("outside", gen.ChildAt("ours", "192.0.2.0/28"))
	framework.Create(t, s.tenant, pool)
	framework.WaitAllocated(t, s.tenant, pool, ipamv1alpha1.ReasonAddressInUse)
	framework.Delete(t, s.tenant, claim)
	framework.WaitAllocated(t, s.tenant, pool, ipamv1alpha1.ReasonAllocationSucceeded)
	framework.Allocate(t, s.tenant, child)
	framework.Create(t, s.tenant, rival, outside)
	framework.WaitAllocated(t, s.tenant, rival, ipamv1alpha1.ReasonAddressInUse)
	framework.WaitAllocated(t, s.tenant, outside, ipamv1alpha1.ReasonAddressOutOfRange)
	for pool, want := range map[*ipamv1alpha1.IPPool]ipamv1alpha1.CIDR{pool: pool.Spec.Address, child: child.Spec.Address} {
		if pool.Status.AllocatedCIDR != string(want) {
			t.Errorf("pool %s got %s, and asks for %s", pool.Name, pool.Status.AllocatedCIDR, want)
		}
	}
	deleteUnused(t, s.tenant, child)
	framework.WaitAllocated(t, s.tenant, rival, ipamv1alpha1.ReasonAllocationSucceeded)
}
