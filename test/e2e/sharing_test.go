package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A shared pool serves the workspaces that it lists: by their paths, or as all workspaces below a path, without the
// one at the path itself. These can use the pool by name or by labels, and see whose it is.
func TestSharing_AdmitsOnlyTheListedWorkspaces(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	top := "root:" + framework.Name(t)
	root, below, deep := platform.TenantAt(t, top), platform.TenantAt(t, top+":web"), platform.TenantAt(t, top+":web:one")
	beside, owner := platform.TenantAt(t, top+"-beside"), platform.Tenant(t)
	pool := gen.Pool("lent", gen.CIDR("10.3.0.0/16"), gen.Label("pool", "lent"))
	share(pool, root.Path+":*", beside.Path)
	framework.Allocate(t, owner, pool)
	for tenant, admitted := range map[*framework.Tenant]bool{below: true, deep: true, beside: true, root: false} {
		byName := gen.Claim("by-name", gen.FromPoolIn(owner.Path, "lent"), gen.Length(28))
		byLabel := gen.Claim("by-label", gen.SelectingIn(owner.Path, "pool", "lent"), gen.Length(28))
		framework.Create(t, tenant, byName, byLabel)
		if !admitted {
			framework.WaitAllocated(t, tenant, byName, ipamv1alpha1.ReasonPoolNotFound)
			framework.WaitAllocated(t, tenant, byLabel, ipamv1alpha1.ReasonPoolNotFound)
			continue
		}
		framework.WaitBound(t, tenant, byName, byLabel)
		disjointIn(t, pool.Spec.CIDR, blockOf(t, byName), blockOf(t, byLabel))
		want := ipamv1alpha1.PoolRef{Name: "lent", ProjectRef: &ipamv1alpha1.ProjectRef{Name: owner.Path}}
		if diff := cmp.Diff(&want, byLabel.Status.PoolRef); diff != "" {
			t.Errorf("the poolRef of a claim from another workspace's pool (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, recordOf(t, tenant, byName).Spec.PoolRef); diff != "" {
			t.Errorf("the poolRef of its record (-want +got):\n%s", diff)
		}
	}
}

// A pool that is no longer shared takes back no block, and gives no more. Waiting claims learn of that. When it is
// shared again, all are served.
func TestSharing_KeepsBlocksWhenAPoolIsWithdrawn(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	owner := s.platform.Tenant(t)
	pool := gen.Pool("lent", gen.CIDR("10.0.0.0/27"))
	share(pool, s.tenant.Path)
	framework.Create(t, owner, pool)
	holds, waits := gen.Claim("holds", gen.FromPoolIn(owner.Path, "lent"), gen.Length(28)), gen.Claim("waits", gen.FromPoolIn(owner.Path, "lent"), gen.Length(27))
	framework.Bind(t, s.tenant, holds)
	framework.Create(t, s.tenant, waits)
	framework.WaitAllocated(t, s.tenant, waits, ipamv1alpha1.ReasonPoolExhausted)

	grant(t, owner, pool)
	framework.WaitAllocated(t, s.tenant, waits, ipamv1alpha1.ReasonPoolNotFound)
	showsRefusal(t, waits, `no pool "lent"`, false)
	after := gen.Claim("after", gen.FromPoolIn(owner.Path, "lent"), gen.Length(28))
	framework.Create(t, s.tenant, after)
	framework.WaitAllocated(t, s.tenant, after, ipamv1alpha1.ReasonPoolNotFound)
	unchanged(t, s.tenant, holds)
	waitHeld(t, owner, pool, size(blockOf(t, holds)))

	grant(t, owner, pool, s.tenant.Path)
	framework.WaitBound(t, s.tenant, after)
	framework.WaitAllocated(t, s.tenant, waits, ipamv1alpha1.ReasonPoolExhausted)
	framework.Delete(t, s.tenant, holds, after)
	framework.WaitBound(t, s.tenant, waits)
	waitHeld(t, owner, pool, size(blockOf(t, waits)))
}

// The same holds for a class, and for a pool of the platform behind a class.
func TestSharing_KeepsBlocksWhenAClassIsWithdrawn(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		withdraw, grant func(scene)
		reason          ipamv1alpha1.Reason
	}{
		"shared class": {
			withdraw: func(s scene) { s.changeClass(func(spec *ipamv1alpha1.IPClassSpec) { spec.Consumers = nil }) },
			grant: func(s scene) {
				s.changeClass(func(spec *ipamv1alpha1.IPClassSpec) {
					spec.Consumers = []ipamv1alpha1.Consumer{ipamv1alpha1.Consumer(s.tenant.Path)}
				})
			},
			reason: ipamv1alpha1.ReasonClassNotFound,
		},
		"platform pool": {
			withdraw: func(s scene) {
				s.changePool(func(spec *ipamv1alpha1.IPPoolSpec) { spec.Consumers = []ipamv1alpha1.Consumer{"root:nobody"} })
			},
			grant:  func(s scene) { s.changePool(func(spec *ipamv1alpha1.IPPoolSpec) { spec.Consumers = nil }) },
			reason: ipamv1alpha1.ReasonNoOfferingPool,
		},
		"class taken off the pool": {
			withdraw: func(s scene) { s.changePool(func(spec *ipamv1alpha1.IPPoolSpec) { spec.ClassNames = nil }) },
			grant: func(s scene) {
				s.changePool(func(spec *ipamv1alpha1.IPPoolSpec) { spec.ClassNames = []string{s.name} })
			},
			reason: ipamv1alpha1.ReasonNoOfferingPool,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.class(gen.Visible(ipamv1alpha1.VisibilityShared), gen.Consumers{ipamv1alpha1.Consumer(s.tenant.Path)})
			pool := s.pool(part(s.cidr, 27))
			holds := s.holds("holds", gen.Length(28))
			waits := gen.Claim("waits", gen.OfClass(s.name), gen.Length(27))
			framework.Create(t, s.tenant, waits)
			framework.WaitAllocated(t, s.tenant, waits, ipamv1alpha1.ReasonPoolExhausted)

			row.withdraw(s)
			framework.WaitAllocated(t, s.tenant, waits, row.reason)
			after := gen.Claim("after", gen.OfClass(s.name), gen.Length(28))
			framework.Create(t, s.tenant, after)
			framework.WaitAllocated(t, s.tenant, after, row.reason)
			unchanged(t, s.tenant, holds)

			row.grant(s)
			framework.WaitBound(t, s.tenant, after)
			framework.Delete(t, s.tenant, holds, after)
			framework.WaitBound(t, s.tenant, waits)
			waitHeld(t, s.platform, pool, size(blockOf(t, waits)))
		})
	}
}

// share makes a pool shared with these workspaces.
func share(pool *ipamv1alpha1.IPPool, consumers ...string) {
	pool.Spec.Visibility = ipamv1alpha1.VisibilityShared
	pool.Spec.Consumers = nil
	for _, path := range consumers {
		pool.Spec.Consumers = append(pool.Spec.Consumers, ipamv1alpha1.Consumer(path))
	}
}

// grant makes a tenant's pool admit exactly these workspaces.
func grant(t *testing.T, owner *framework.Tenant, pool *ipamv1alpha1.IPPool, consumers ...string) {
	t.Helper()
	framework.Change(t, owner, pool, func(pool *ipamv1alpha1.IPPool) { share(pool, consumers...) })
}
