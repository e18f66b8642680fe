package shards

import (
	"slices"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// sweeping has a controller look for orphans all the time.
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
	s.near, s.far = s.more(s.here, 3), s.more(s.there, 3)
	s.holds()
	return s
}

func (s *scene) more(tenant *framework.Tenant, count int) []*ipamv1alpha1.IPClaim {
	s.Helper()
	return bind(s.T, tenant, count, gen.OfClass(s.pool.Name))
}

// holds waits until exactly the blocks of the claims of the scene are taken in the pool,
// and so many others.
func (s *scene) holds(others ...*ipamv1alpha1.IPClaim) {
	s.Helper()
	all := slices.Concat(s.near, s.far, others)
	distinct(s.T, all...)
	waitHeld(s.T, s.platform, s.pool, len(all))
}

// drops deletes the first of the claims that a tenant has.
func (s *scene) drops(tenant *framework.Tenant, claims *[]*ipamv1alpha1.IPClaim) *ipamv1alpha1.IPClaim {
	s.Helper()
	dropped := (*claims)[0]
	framework.Delete(s, tenant, dropped)
	*claims = (*claims)[1:]
	return dropped
}

// keeps fails the test unless the claims of the shard that was away have the blocks they
// had, and waits until its tenant is served as before.
func (s *scene) keeps() {
	s.Helper()
	s.unchanged(s.there, s.far)
	s.far = append(s.far, s.more(s.there, 1)...)
	s.drops(s.there, &s.far)
	s.holds()
	s.platform.WaitVerified(s)
}

// unchanged fails the test unless the claims of a tenant are bound to the blocks that they had.
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

// While a shard is away the other one is served, and nothing of its own is freed, however
// often its claims are not found. When it is back, all is as before.
func TestAway(t *testing.T) {
	s := newScene(t)
	framework.KillShard(t, framework.OtherShard)
	s.drops(s.here, &s.near)
	s.near = append(s.near, s.more(s.here, 2)...)
	s.platform.WaitSwept(t, 8)
	s.holds()
	framework.StartShard(t, framework.OtherShard)
	s.keeps()

	// A controller that finds the shard away when it starts serves it as soon as it is back.
	// What was deleted there, seen by nobody, is freed then and no sooner.
	s.platform.StopController(t)
	gone := s.drops(s.there, &s.far)
	framework.KillShard(t, framework.OtherShard)
	s.platform.StartController(t)
	s.drops(s.here, &s.near)
	s.near = append(s.near, s.more(s.here, 2)...)
	s.platform.WaitSwept(t, 8)
	s.holds(gone)
	framework.StartShard(t, framework.OtherShard)
	s.keeps()
}
