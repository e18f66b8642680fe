package shards

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// networks are a scene whose platform offers a /24 for each network.
type networks struct {
	*scene
	roots map[string]*ipamv1alpha1.IPPool // by tenancy
}

func newNetworks(s *scene) *networks {
	s.Helper()
	n := &networks{scene: s, roots: map[string]*ipamv1alpha1.IPPool{}}
	for tenancy, class := range map[string]string{ipamv1alpha1.RoleProject: "own", ipamv1alpha1.RoleAllProjects: "shared"} {
		root := gen.Pool(class, gen.CIDR(n.platform.CIDR(n)), gen.Backs(class+"-net"), gen.Visible(ipamv1alpha1.VisibilityPlatform))
		framework.Create(n, n.platform, root,
			gen.Class(class+"-net", gen.DefaultLength(24), gen.PoolPer("network", tenancy)), gen.Class(class, gen.DefaultLength(32), gen.Below(class+"-net")))
		framework.WaitAllocated(n, n.platform, root, ipamv1alpha1.ReasonAllocationSucceeded)
		n.roots[tenancy] = root
	}
	n.platform.WaitWebhooks(n, n.here, n.there)
	return n
}

// network is the name of the network that the tenants of each shard have.
const network = "net"

// ranged returns the claim for the range of the network. inside returns a claim for an address in it.
func ranged(name, class string) *ipamv1alpha1.IPClaim {
	return gen.Claim(name, gen.OfClass(class+"-net"), gen.Within("network", network), gen.ForRange())
}

func inside(name, class string) *ipamv1alpha1.IPClaim {
	return gen.Claim(name, gen.OfClass(class), gen.Within("network", network))
}

// has creates claims of a tenant, and waits until they are bound. It repeats a CREATE that a busy machine does not
// answer.
func (n *networks) has(tenant *framework.Tenant, claims ...*ipamv1alpha1.IPClaim) {
	n.Helper()
	for _, claim := range claims {
		framework.Eventually(n, "claim "+claim.Name+" to be created", func(ctx context.Context) error {
			return client.IgnoreAlreadyExists(tenant.Create(ctx, claim.DeepCopy()))
		})
	}
	framework.WaitBound(n, tenant, claims...)
}

// gone deletes claims of a tenant. It fails the test unless the pool of a range is gone when the DELETE of the range
// returns.
func (n *networks) gone(tenant *framework.Tenant, claims ...*ipamv1alpha1.IPClaim) {
	n.Helper()
	for _, claim := range claims {
		framework.Eventually(n, "claim "+claim.Name+" to be deleted", func(ctx context.Context) error { return tenant.Delete(ctx, claim) })
		if claim.Spec.Target == ipamv1alpha1.TargetScopeRange {
			if _, err := n.poolOf(tenant, claim); !apierrors.IsNotFound(err) {
				n.Errorf("the pool of range %s after its DELETE: %v; want 404", claim.Name, err)
			}
		}
	}
}

// poolOf reads the pool that a claim of a tenant names.
func (n *networks) poolOf(tenant *framework.Tenant, claim *ipamv1alpha1.IPClaim) (*ipamv1alpha1.IPPool, error) {
	n.Helper()
	var in client.Reader = tenant
	if claim.Status.PoolRef.ProjectRef != nil {
		in = n.platform
	}
	pool := &ipamv1alpha1.IPPool{}
	return pool, in.Get(n.Context(), client.ObjectKey{Name: claim.Status.PoolRef.Name}, pool)
}

// isLeft waits until exactly that many addresses of a root pool are in use.
func (n *networks) isLeft(tenancy string, addresses int) {
	n.Helper()
	framework.WaitWhile(n, n.platform, n.roots[tenancy], fmt.Sprintf("want %d addresses allocated", addresses), func(pool *ipamv1alpha1.IPPool) bool {
		return pool.Status.Capacity == nil || pool.Status.Capacity.Allocated != fmt.Sprint(addresses)
	})
}

// areOneOrOneEach fails the test unless a network's name means, as its class says, one network for the tenants of all
// shards, or one for each tenant.
func (n *networks) areOneOrOneEach() {
	n.Helper()
	for _, class := range []string{"own", "shared"} {
		near, far := inside("near-"+class, class), inside("far-"+class, class)
		n.has(n.here, near)
		n.has(n.there, far)
		a, errA := n.poolOf(n.here, near)
		b, errB := n.poolOf(n.there, far)
		if errA != nil || errB != nil || (a.UID == b.UID) != (class == "shared") || near.Status.AllocatedCIDR == far.Status.AllocatedCIDR {
			n.Errorf("%s: %s of pool %s, %v; and %s of pool %s, %v", class, near.Status.AllocatedCIDR, a.UID, errA, far.Status.AllocatedCIDR, b.UID, errB)
		}
		n.gone(n.here, near)
		n.gone(n.there, far)
	}
	n.isLeft(ipamv1alpha1.RoleProject, 2*256) // unused pools, which stay for ten minutes
	n.isLeft(ipamv1alpha1.RoleAllProjects, 256)
}

// ranges are the claims for ranges of tenants of both shards, and a claim for an address inside a range of the other
// tenant.
type ranges struct{ own, shared, far, theirs *ipamv1alpha1.IPClaim }

func (n *networks) makesRanges() ranges {
	n.Helper()
	r := ranges{ranged("own", "own"), ranged("shared", "shared"), inside("far", "shared"), ranged("theirs", "own")}
	n.has(n.here, r.own, r.shared)
	n.has(n.there, r.far, r.theirs)
	return r
}

// deletesRangesAlone fails the test unless, while a shard is away, a range without claims inside is deleted, and a
// range that had one inside is kept: nobody can say that this claim is gone.
func (n *networks) deletesRangesAlone(r ranges) {
	n.Helper()
	n.gone(n.here, r.own)
	for range 3 {
		if err := n.here.Delete(n.Context(), r.shared); !apierrors.IsConflict(err) && !apierrors.IsServiceUnavailable(err) {
			n.Errorf("the DELETE of a range with an address of the shard that is away: %v; want 409, or 503", err)
		}
	}
	n.has(n.here, inside("near", "shared"))
}

// deletesRangesOfBoth fails the test unless, once the shard is back, all ranges can be deleted, but only after the
// claims inside.
func (n *networks) deletesRangesOfBoth(r ranges) {
	n.Helper()
	framework.WaitBound(n, n.there, r.far, r.theirs)
	if err := n.here.Delete(n.Context(), r.shared); !apierrors.IsConflict(err) || strings.Contains(err.Error(), r.far.Name) {
		n.Errorf("the DELETE of a range with addresses inside: %v; want 409 that names no claim of another workspace", err)
	}
	n.gone(n.here, inside("near", "shared"))
	n.gone(n.there, r.far, r.theirs)
	n.gone(n.here, r.shared)
	n.isLeft(ipamv1alpha1.RoleProject, 0)
	n.isLeft(ipamv1alpha1.RoleAllProjects, 0)
}
