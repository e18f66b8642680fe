package shards

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// networks are a platform that offers a /24 for each network, and a tenant on each shard.
type networks struct {
	*testing.T
	platform    *framework.Platform
	roots       map[string]*ipamv1alpha1.IPPool // by tenancy
	here, there *framework.Tenant
}

func newNetworks(t *testing.T) *networks {
	t.Helper()
	n := &networks{T: t, platform: framework.NewPlatform(t).Replica(t, "swept", sweeping...), roots: map[string]*ipamv1alpha1.IPPool{}}
	n.platform.StartController(t)
	for tenancy, class := range map[string]string{ipamv1alpha1.RoleProject: "own", ipamv1alpha1.RoleAllProjects: "shared"} {
		root := gen.Pool(class, gen.CIDR(n.platform.CIDR(t)), gen.Backs(class+"-net"), gen.Visible(ipamv1alpha1.VisibilityPlatform))
		framework.Create(t, n.platform, root,
			gen.Class(class+"-net", gen.DefaultLength(24), gen.PoolPer("network", tenancy)), gen.Class(class, gen.DefaultLength(32), gen.Below(class+"-net")))
		framework.WaitAllocated(t, n.platform, root, ipamv1alpha1.ReasonAllocationSucceeded)
		n.roots[tenancy] = root
	}
	n.here, n.there = n.platform.TenantOn(t, framework.RootShard), n.platform.TenantOn(t, framework.OtherShard)
	n.platform.WaitWebhooks(t, n.here, n.there)
	return n
}

// network is the one that the tenants of each shard have.
const network = "net"

// ranged returns the claim for the range of the network, and inside one for an address in it.
func ranged(name, class string) *ipamv1alpha1.IPClaim {
	return gen.Claim(name, gen.OfClass(class+"-net"), gen.Within("network", network), gen.ForRange())
}

func inside(name, class string) *ipamv1alpha1.IPClaim {
	return gen.Claim(name, gen.OfClass(class), gen.Within("network", network))
}

// has creates claims of a tenant, asking again while a busy machine has no answer, and waits until they are bound.
func (n *networks) has(tenant *framework.Tenant, claims ...*ipamv1alpha1.IPClaim) {
	n.Helper()
	for _, claim := range claims {
		framework.Eventually(n, "claim "+claim.Name+" to be created", func(ctx context.Context) error {
			return client.IgnoreAlreadyExists(tenant.Create(ctx, claim.DeepCopy()))
		})
	}
	framework.WaitBound(n, tenant, claims...)
}

// gone deletes claims of a tenant, and fails the test unless the pool of a range is gone when its DELETE returns.
func (n *networks) gone(tenant *framework.Tenant, claims ...*ipamv1alpha1.IPClaim) {
	n.Helper()
	for _, claim := range claims {
		framework.Eventually(n, "claim "+claim.Name+" to be deleted", func(ctx context.Context) error { return tenant.Delete(ctx, claim) })
		if claim.Spec.Target == ipamv1alpha1.TargetScopeRange {
			if _, err := n.pool(tenant, claim); !apierrors.IsNotFound(err) {
				n.Errorf("the pool of range %s after its DELETE: %v; want 404", claim.Name, err)
			}
		}
	}
}

// pool reads the pool that a claim of a tenant names.
func (n *networks) pool(tenant *framework.Tenant, claim *ipamv1alpha1.IPClaim) (*ipamv1alpha1.IPPool, error) {
	n.Helper()
	var in client.Reader = tenant
	if claim.Status.PoolRef.ProjectRef != nil {
		in = n.platform
	}
	pool := &ipamv1alpha1.IPPool{}
	return pool, in.Get(n.Context(), client.ObjectKey{Name: claim.Status.PoolRef.Name}, pool)
}

// isLeft waits until so many addresses of a root pool are in use.
func (n *networks) isLeft(tenancy string, addresses int) {
	n.Helper()
	framework.WaitFor(n, n.platform, n.roots[tenancy], func(pool *ipamv1alpha1.IPPool) error {
		if c := pool.Status.Capacity; c == nil || c.Allocated != fmt.Sprint(addresses) {
			return fmt.Errorf("its capacity is %+v, want %d allocated", c, addresses)
		}
		return nil
	})
}

// A network of one name is one for the tenants of all shards, or one for each tenant, as its class says.
func TestNetworks_AreOneOrOneEachAcrossShards(t *testing.T) {
	n := newNetworks(t)
	for _, class := range []string{"own", "shared"} {
		near, far := inside("near-"+class, class), inside("far-"+class, class)
		n.has(n.here, near)
		n.has(n.there, far)
		a, errA := n.pool(n.here, near)
		b, errB := n.pool(n.there, far)
		if errA != nil || errB != nil || (a.UID == b.UID) != (class == "shared") || near.Status.AllocatedCIDR == far.Status.AllocatedCIDR {
			t.Errorf("%s: %s of pool %s, %v; and %s of pool %s, %v", class, near.Status.AllocatedCIDR, a.UID, errA, far.Status.AllocatedCIDR, b.UID, errB)
		}
		n.gone(n.here, near)
		n.gone(n.there, far)
	}
	n.isLeft(ipamv1alpha1.RoleProject, 2*256) // which nobody uses for ten minutes
	n.isLeft(ipamv1alpha1.RoleAllProjects, 256)
	n.platform.WaitVerified(t)
}

// While a shard is away, a range is deleted that nothing of it is in, and one is kept that something of it is in: nobody can say that it
// is gone. When the shard is back, all can be released.
func TestNetworks_ARangeIsDeletedWhileAShardIsAway(t *testing.T) {
	n := newNetworks(t)
	own, shared, far := ranged("own", "own"), ranged("shared", "shared"), inside("far", "shared")
	theirs := ranged("theirs", "own")
	n.has(n.here, own, shared)
	n.has(n.there, far, theirs)
	framework.KillShard(t, framework.OtherShard)
	n.gone(n.here, own)
	for range 3 {
		if err := n.here.Delete(t.Context(), shared); !apierrors.IsConflict(err) && !apierrors.IsServiceUnavailable(err) {
			t.Errorf("the DELETE of a range with an address of the shard that is away: %v; want 409, or 503", err)
		}
	}
	near := inside("near", "shared")
	n.has(n.here, near)
	n.platform.WaitSwept(t, 8)
	n.isLeft(ipamv1alpha1.RoleProject, 256)
	framework.StartShard(t, framework.OtherShard)

	framework.WaitBound(t, n.there, far, theirs)
	if err := n.here.Delete(t.Context(), shared); !apierrors.IsConflict(err) || strings.Contains(err.Error(), far.Name) {
		t.Errorf("the DELETE of a range with addresses inside: %v; want 409 that names no claim of another workspace", err)
	}
	n.gone(n.here, near)
	n.gone(n.there, far, theirs)
	n.gone(n.here, shared)
	n.isLeft(ipamv1alpha1.RoleProject, 0)
	n.isLeft(ipamv1alpha1.RoleAllProjects, 0)
	n.platform.WaitVerified(t)
}
