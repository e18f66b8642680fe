package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Three levels are made from the bottom up: each pool waits for its parent, and is then carved from it. Each is
// counted in its parent to the last address, and no pool can be deleted before the pools below it.
func TestHierarchy_CountsThreeLevels(t *testing.T) {
	t.Parallel()
	tenant := framework.SharedPlatform(t).Tenant(t)
	root := gen.Pool("root", gen.CIDR("10.0.0.0/16"))
	middle := gen.Pool("middle", gen.ChildOf("root", 20))
	leaf := gen.Pool("leaf", gen.ChildOf("middle", 24))
	claim := gen.Claim("web", gen.FromPool("leaf"), gen.Length(28))
	framework.Create(t, tenant, claim)
	framework.WaitAllocated(t, tenant, claim, ipamv1alpha1.ReasonPoolNotFound)
	for _, pool := range []*ipamv1alpha1.IPPool{leaf, middle} {
		framework.Create(t, tenant, pool)
		framework.WaitAllocated(t, tenant, pool, ipamv1alpha1.ReasonPoolNotFound)
		poolWaits(t, pool, fmt.Sprintf("pool %q", pool.Spec.ParentPoolRef.Name), false)
	}

	framework.Create(t, tenant, root)
	framework.WaitBound(t, tenant, claim)
	for _, pool := range []*ipamv1alpha1.IPPool{root, middle, leaf} {
		framework.WaitAllocated(t, tenant, pool, ipamv1alpha1.ReasonAllocationSucceeded)
		if pool.Status.IPFamily != ipamv1alpha1.IPv4 {
			t.Errorf("the family of pool %s is %q; want that of the root", pool.Name, pool.Status.IPFamily)
		}
	}
	inside(t, root, middle)
	inside(t, middle, leaf)
	disjointIn(t, ipamv1alpha1.CIDR(leaf.Status.AllocatedCIDR), blockOf(t, claim))
	waitHeld(t, tenant, leaf, size(blockOf(t, claim)))
	waitHeld(t, tenant, middle, size(spaceOf(t, leaf)))
	waitHeld(t, tenant, root, size(spaceOf(t, middle)))

	for pool, holder := range map[*ipamv1alpha1.IPPool]string{root: "pool middle", middle: "pool leaf", leaf: "claim default/web"} {
		framework.WaitCondition(t, tenant, pool, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonInUse)
		isRefused(t, tenant.Delete(t.Context(), pool), "(the pool holds 1 block, of "+holder+")", "delete pool %s", pool.Name)
	}
	framework.Delete(t, tenant, claim)
	for _, step := range []struct{ goes, parent *ipamv1alpha1.IPPool }{{leaf, middle}, {middle, root}} {
		deleteUnused(t, tenant, step.goes)
		waitHeld(t, tenant, step.parent, size())
	}
	deleteUnused(t, tenant, root)
}

// The parent may be in another workspace, once that workspace shares it. The parent's owner sees that a block is
// held, but not by whom.
func TestHierarchy_CarvesFromAnotherWorkspacesPool(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	owner, guest := platform.Tenant(t), platform.Tenant(t)
	child := gen.Pool("child", gen.ChildOf("lent", 24))
	child.Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: owner.Path}
	framework.Create(t, guest, child)
	framework.WaitAllocated(t, guest, child, ipamv1alpha1.ReasonPoolNotFound)
	poolWaits(t, child, `no pool "lent"`, false)
	before := child.DeepCopy()

	parent := gen.Pool("lent", gen.CIDR("10.0.0.0/16"), gen.Visible(ipamv1alpha1.VisibilityShared))
	framework.Allocate(t, owner, parent)
	if framework.WaitAllocated(t, guest, child, ipamv1alpha1.ReasonPoolNotFound); child.ResourceVersion != before.ResourceVersion {
		t.Errorf("the child shows that there is a pool which it may not use:\nbefore %+v\nafter  %+v", before.Status, child.Status)
	}
	framework.Update(t, owner, parent, func(pool *ipamv1alpha1.IPPool) {
		pool.Spec.Consumers = []ipamv1alpha1.Consumer{ipamv1alpha1.Consumer(guest.Path)}
	})
	framework.WaitAllocated(t, guest, child, ipamv1alpha1.ReasonAllocationSucceeded)
	inside(t, parent, child)

	framework.WaitCondition(t, owner, parent, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonInUse)
	isRefused(t, owner.Delete(t.Context(), parent), "(the pool holds 1 block)", "delete a pool that others hold")
	deleteUnused(t, guest, child)
	waitHeld(t, owner, parent, size())
	deleteUnused(t, owner, parent)
}

// Admission refuses to delete a pool with blocks. If kcp itself deletes it, the pool stays until no holder has a
// block of it. It hands out nothing meanwhile, and takes nothing back.
func TestHierarchy_KeepsADeletedPoolWithBlocks(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	pool := s.ownPool(gen.CIDR("10.0.0.0/24"), gen.Backs(s.name))
	claim, child := s.holds("web", gen.Length(28)), gen.Pool("child", gen.ChildOf("own", 26))
	framework.Allocate(t, s.tenant, child)
	framework.Delete(t, framework.System(t, s.tenant.Path), gen.Pool("own", gen.UID(pool.UID)))

	late, byClass := gen.Claim("late", gen.FromPool("own"), gen.Length(28)), gen.Claim("by-class", gen.OfClass(s.name), gen.Length(28))
	framework.Eventually(t, "the deletion of the pool to be seen", func(ctx context.Context) error {
		probe := late.DeepCopy()
		if err := s.tenant.Create(ctx, probe, client.DryRunAll); err != nil {
			return err
		}
		if allocated := meta.FindStatusCondition(probe.Status.Conditions, ipamv1alpha1.ConditionAllocated); allocated == nil || allocated.Reason != string(ipamv1alpha1.ReasonPoolNotFound) {
			return fmt.Errorf("a claim would be %+v", allocated)
		}
		return nil
	})
	framework.Create(t, s.tenant, late, byClass)
	framework.WaitAllocated(t, s.tenant, late, ipamv1alpha1.ReasonPoolNotFound)
	framework.WaitAllocated(t, s.tenant, byClass, ipamv1alpha1.ReasonNoOfferingPool)
	framework.Delete(t, s.tenant, claim)
	waitHeld(t, s.tenant, pool, size(spaceOf(t, child)))
	if pool.DeletionTimestamp.IsZero() {
		t.Error("the pool is not being deleted")
	}
	deleteUnused(t, s.tenant, child)
	framework.WaitGone(t, s.tenant, pool)
}

// poolWaits fails the test unless a pool without a block says why, in its message and in its conditions.
func poolWaits(t *testing.T, pool *ipamv1alpha1.IPPool, says string, stalled bool) {
	t.Helper()
	phase := ipamv1alpha1.PoolPending
	if stalled {
		phase = ipamv1alpha1.PoolError
	}
	if pool.Status.Phase != phase || pool.Status.AllocatedCIDR != "" || pool.Status.Capacity != nil {
		t.Errorf("the status of pool %s is %+v; want phase %s, and no block", pool.Name, pool.Status, phase)
	}
	saysWhy(t, pool.Status.Conditions, says, stalled)
}

// inside fails the test unless the block of a child lies in its parent's block.
func inside(t *testing.T, parent, child *ipamv1alpha1.IPPool) {
	t.Helper()
	block := spaceOf(t, child)
	disjointIn(t, ipamv1alpha1.CIDR(parent.Status.AllocatedCIDR), block)
	if block.Bits() != int(child.Spec.PrefixLength) {
		t.Errorf("the block of pool %s is %s; want a /%d", child.Name, block, child.Spec.PrefixLength)
	}
}

// spaceOf returns the block that a pool shows.
func spaceOf(t *testing.T, pool *ipamv1alpha1.IPPool) netip.Prefix {
	t.Helper()
	block, err := netip.ParsePrefix(pool.Status.AllocatedCIDR)
	if err != nil {
		t.Fatalf("allocatedCIDR of pool %s: %v", pool.Name, err)
	}
	return block
}

// deleteUnused deletes a pool once it shows that it is unused, and waits until it is gone.
func deleteUnused(t *testing.T, c client.Client, pool *ipamv1alpha1.IPPool) {
	t.Helper()
	framework.WaitCondition(t, c, pool, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonUnused)
	gone := pool.DeepCopy()
	framework.Delete(t, c, gone)
	framework.WaitGone(t, c, gone)
}
