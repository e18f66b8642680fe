package shards

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// lends fails the test unless a tenant's shared pool serves a tenant of the other shard, and is the parent of a pool of its.
func (s *scene) lends() {
	s.Helper()
	owner, guest := s.there, s.here
	pool := gen.Pool("lent", gen.CIDR("10.0.0.0/16"), gen.Visible(ipamv1alpha1.VisibilityShared),
		gen.Consumers{ipamv1alpha1.Consumer(guest.Path)})
	framework.Create(s, owner, pool)
	child := gen.Pool("own", gen.ChildOf("lent", 28))
	child.Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: owner.Path}
	framework.Allocate(s, guest, child)

	claims := append(bind(s.T, guest, 2, gen.FromPoolIn(owner.Path, "lent")), bind(s.T, owner, 2, gen.FromPool("lent"))...)
	distinct(s.T, claims...)
	waitHeld(s.T, owner, pool, len(claims)+1)
	inside := gen.Claim("inside", gen.FromPool("own"), gen.Length(28))
	framework.Bind(s, guest, inside)
	if inside.Status.AllocatedCIDR != child.Status.AllocatedCIDR {
		s.Errorf("the claim from the child pool %s has %s", child.Status.AllocatedCIDR, inside.Status.AllocatedCIDR)
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
