package shards

import (
	"context"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// sweeping makes a controller look for orphans all the time.
var sweeping = []string{"--sweep-interval=500ms", "--orphan-min-age=1s"}

// scene is a platform, and a tenant on each shard with bound claims from one pool.
type scene struct {
	*testing.T
	platform    *framework.Platform
	pool        *ipamv1alpha1.IPPool
	here, there *framework.Tenant // on RootShard, on OtherShard
	near, far   []*ipamv1alpha1.IPClaim
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, platform: framework.NewPlatform(t).Replica(t, "swept", sweeping...)}
	s.platform.StartController(t)
	s.pool = offer(t, s.platform, framework.Name(t))
	s.here, s.there = s.platform.TenantOn(t, framework.RootShard), s.platform.TenantOn(t, framework.OtherShard)
	for _, tenant := range []*framework.Tenant{s.here, s.there} {
		class := gen.Class(s.pool.Name)
		framework.Eventually(t, "the class to be listed for "+tenant.Path, func(ctx context.Context) error {
			return tenant.Get(ctx, client.ObjectKeyFromObject(class), class)
		})
	}
	s.near, s.far = s.more(s.here, 3), s.more(s.there, 3)
	s.holds()
	return s
}

func (s *scene) more(tenant *framework.Tenant, count int) []*ipamv1alpha1.IPClaim {
	s.Helper()
	return bind(s.T, tenant, count, gen.OfClass(s.pool.Name))
}

// holds waits until exactly the blocks of the scene's claims and of the others are allocated in the pool.
func (s *scene) holds(others ...*ipamv1alpha1.IPClaim) {
	s.Helper()
	all := slices.Concat(s.near, s.far, others)
	distinct(s.T, all...)
	waitHeld(s.T, s.platform, s.pool, len(all))
}

// drops deletes the first of a tenant's claims, and returns it.
func (s *scene) drops(tenant *framework.Tenant, claims *[]*ipamv1alpha1.IPClaim) *ipamv1alpha1.IPClaim {
	s.Helper()
	dropped := (*claims)[0]
	framework.Delete(s, tenant, dropped)
	*claims = (*claims)[1:]
	return dropped
}

// keeps fails the test unless the claims of the shard that was away have their former blocks, and waits until the
// tenant is served as before.
func (s *scene) keeps() {
	s.Helper()
	s.unchanged(s.there, s.far)
	s.far = append(s.far, s.more(s.there, 1)...)
	s.drops(s.there, &s.far)
	s.holds()
	s.platform.WaitVerified(s)
}

// unchanged fails the test unless the claims of a tenant are bound to their former blocks.
func (s *scene) unchanged(tenant *framework.Tenant, claims []*ipamv1alpha1.IPClaim) {
	s.Helper()
	for _, claim := range claims {
		had := claim.Status.AllocatedCIDR
		framework.WaitBound(s, tenant, claim)
		if claim.Status.AllocatedCIDR != had {
			s.Errorf("claim %s had %s and has %s", claim.Name, had, claim.Status.AllocatedCIDR)
		}
	}
}

// Tenants of both shards are served as tenants of one platform, even while a shard is away, and when it is back. That
// shard's claims keep their blocks. The steps share a platform, and the starts of a shard.
func TestShards_AreServedAsOne(t *testing.T) {
	n := newNetworks(newScene(t))
	t.Log("a tenant's pool, shared with the other shard")
	n.lends()
	t.Log("a shard is killed, and comes back")
	n.awayBesideTheController()
	t.Log("networks of one name on both shards")
	n.areOneOrOneEach()
	t.Log("the controller starts while a shard is away, and then beside an endpoint slice without it")
	n.awayWhenTheControllerStarts()
}

// awayBesideTheController kills a shard. The other shard is served meanwhile. Nothing of the lost shard is freed,
// however often its claims are not found. When it is back, all is as before.
func (n *networks) awayBesideTheController() {
	n.Helper()
	kept := n.makesRanges()
	framework.KillShard(n, framework.OtherShard)
	n.drops(n.here, &n.near)
	n.near = append(n.near, n.more(n.here, 2)...)
	n.deletesRangesAlone(kept)
	n.platform.WaitSwept(n, 8)
	n.holds()
	n.isLeft(ipamv1alpha1.RoleProject, 256)
	framework.StartShard(n, framework.OtherShard)
	n.keeps()
	n.deletesRangesOfBoth(kept)
}

// awayWhenTheControllerStarts starts the controller while a shard is away, and makes the endpoint slice leave the
// shard out before it is back. The block of a claim that was deleted there unseen is freed when the slice has the
// shard again, and not earlier.
func (n *networks) awayWhenTheControllerStarts() {
	n.Helper()
	n.platform.StopController(n)
	gone := n.drops(n.there, &n.far)
	framework.KillShard(n, framework.OtherShard)
	n.platform.StartController(n)
	n.drops(n.here, &n.near)
	n.near = append(n.near, n.more(n.here, 2)...)
	n.platform.WaitSwept(n, 8)
	n.holds(gone)
	n.narrow(framework.RootShard)
	framework.StartShard(n, framework.OtherShard)
	n.isHalfBlind(gone)
	n.widen()
	n.keeps()
}
