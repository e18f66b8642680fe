package shards

import (
	"context"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Tenants see the classes of the platform wherever they are, and draw on its pools
// together.
func TestPool_OfThePlatform(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name := framework.Name(t)
	pool := offer(t, platform, name)
	here, there := platform.TenantOn(t, framework.RootShard), platform.TenantOn(t, framework.OtherShard)
	for _, tenant := range []*framework.Tenant{here, there} {
		class := gen.Class(name)
		framework.Eventually(t, "the class to be listed for "+tenant.Path, func(ctx context.Context) error {
			return tenant.Get(ctx, client.ObjectKeyFromObject(class), class)
		})
	}
	claims := append(bind(t, here, 5, gen.OfClass(name)), bind(t, there, 5, gen.OfClass(name))...)
	distinct(t, claims...)
	waitHeld(t, platform, pool, len(claims))
	framework.Delete(t, there, claims[5])
	waitHeld(t, platform, pool, len(claims)-1)
}

// A tenant's shared pool serves, and is the parent of, who is on another shard.
func TestPool_SharedAcross(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	owner, guest := platform.TenantOn(t, framework.OtherShard), platform.TenantOn(t, framework.RootShard)
	pool := gen.Pool("lent", gen.CIDR("10.0.0.0/16"), gen.Visible(ipamv1alpha1.VisibilityShared),
		gen.Consumers{ipamv1alpha1.Consumer(guest.Path)})
	framework.Create(t, owner, pool)
	child := gen.Pool("own", gen.ChildOf("lent", 28))
	child.Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: owner.Path}
	framework.Create(t, guest, child)
	framework.WaitAllocated(t, guest, child, ipamv1alpha1.ReasonAllocationSucceeded)

	claims := append(bind(t, guest, 2, gen.FromPoolIn(owner.Path, "lent")), bind(t, owner, 2, gen.FromPool("lent"))...)
	distinct(t, claims...)
	waitHeld(t, owner, pool, len(claims)+1)
	inside := gen.Claim("inside", gen.FromPool("own"), gen.Length(28))
	framework.Create(t, guest, inside)
	framework.WaitBound(t, guest, inside)
	if inside.Status.AllocatedCIDR != child.Status.AllocatedCIDR {
		t.Errorf("the claim from the child pool %s has %s", child.Status.AllocatedCIDR, inside.Status.AllocatedCIDR)
	}
}

// offer makes a class and a platform's pool of the same name behind it.
func offer(t *testing.T, platform *framework.Platform, name string) *ipamv1alpha1.IPPool {
	t.Helper()
	pool := gen.Pool(name, gen.CIDR(platform.CIDR(t)), gen.Backs(name), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	framework.Create(t, platform, gen.Class(name), pool)
	framework.WaitAllocated(t, platform, pool, ipamv1alpha1.ReasonAllocationSucceeded)
	return pool
}

// bind makes so many claims of 16 addresses, and waits until they are bound.
func bind(t *testing.T, tenant *framework.Tenant, count int, from gen.ClaimOption) []*ipamv1alpha1.IPClaim {
	t.Helper()
	claims := make([]*ipamv1alpha1.IPClaim, count)
	for i := range claims {
		claims[i] = gen.Claim("", from, gen.Length(28))
		claims[i].GenerateName = "claim-"
		framework.Create(t, tenant, claims[i])
	}
	framework.WaitBound(t, tenant, claims...)
	return claims
}

// distinct fails the test unless each claim, all of one length, has a block of its own.
func distinct(t *testing.T, claims ...*ipamv1alpha1.IPClaim) {
	t.Helper()
	holders := map[ipamv1alpha1.CIDR]string{}
	for _, claim := range claims {
		block := ipamv1alpha1.CIDR(claim.Status.AllocatedCIDR)
		if holder, taken := holders[block]; taken {
			t.Errorf("%s and %s both have %s", holder, claim.Name, block)
		}
		holders[block] = claim.Name
	}
}

// waitHeld waits until the status of a pool shows exactly so many blocks of 16 addresses
// taken.
func waitHeld(t *testing.T, c client.Reader, pool *ipamv1alpha1.IPPool, blocks int) {
	t.Helper()
	want := fmt.Sprint(blocks * 16)
	framework.WaitFor(t, c, pool, func(pool *ipamv1alpha1.IPPool) error {
		if pool.Status.Capacity == nil || pool.Status.Capacity.Allocated != want {
			return fmt.Errorf("there are not %s addresses taken", want)
		}
		return nil
	})
}
