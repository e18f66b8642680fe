package e2e

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A shared pool serves those it lists: exactly, or below a subtree, whose root is not
// below itself. By name or by labels, and they see whose it is.
func TestSharing_WhoIsAdmitted(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	top := "root:" + framework.Name(t)
	root, below, deep := platform.TenantAt(t, top), platform.TenantAt(t, top+":web"), platform.TenantAt(t, top+":web:one")
	beside := platform.TenantAt(t, top+"-beside")
	owner := platform.Tenant(t)
	for pool, row := range map[*ipamv1alpha1.IPPool]struct {
		consumers []string
		admitted  []*framework.Tenant
		refused   []*framework.Tenant
	}{
		gen.Pool("exact", gen.CIDR("10.1.0.0/16")): {
			[]string{below.Path}, []*framework.Tenant{below}, []*framework.Tenant{root, deep, beside},
		},
		gen.Pool("both", gen.CIDR("10.3.0.0/16")): {
			[]string{root.Path + ":*", beside.Path}, []*framework.Tenant{below, deep, beside}, []*framework.Tenant{root},
		},
	} {
		pool.Labels = map[string]string{"pool": pool.Name}
		share(pool, row.consumers...)
		framework.Create(t, owner, pool)
		framework.WaitAllocated(t, owner, pool, ipamv1alpha1.ReasonAllocationSucceeded)
		claims := func() (byName, byLabel *ipamv1alpha1.IPClaim) {
			return gen.Claim(pool.Name+"-by-name", gen.FromPoolIn(owner.Path, pool.Name), gen.Length(28)),
				gen.Claim(pool.Name+"-by-label", gen.SelectingIn(owner.Path, "pool", pool.Name), gen.Length(28))
		}
		for _, tenant := range row.admitted {
			byName, byLabel := claims()
			framework.Create(t, tenant, byName, byLabel)
			framework.WaitBound(t, tenant, byName, byLabel)
			disjointIn(t, pool.Spec.CIDR, blockOf(t, byName), blockOf(t, byLabel))
			want := ipamv1alpha1.PoolRef{Name: pool.Name, ProjectRef: &ipamv1alpha1.ProjectRef{Name: owner.Path}}
			if diff := cmp.Diff(&want, byLabel.Status.PoolRef); diff != "" {
				t.Errorf("the poolRef of a claim from another workspace's pool (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, recordOf(t, tenant, byName).Spec.PoolRef); diff != "" {
				t.Errorf("the poolRef of its record (-want +got):\n%s", diff)
			}
		}
		for _, tenant := range row.refused {
			byName, byLabel := claims()
			framework.Create(t, tenant, byName, byLabel)
			framework.WaitAllocated(t, tenant, byName, ipamv1alpha1.ReasonPoolNotFound)
			framework.WaitAllocated(t, tenant, byLabel, ipamv1alpha1.ReasonPoolNotFound)
		}
	}
}

// A pool that is no longer shared leaves what it gave where it is, and gives nothing
// more. Who waited for room learns it; with the grant back, all are served.
func TestSharing_Withdrawn(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	owner := s.platform.Tenant(t)
	pool := gen.Pool("lent", gen.CIDR("10.0.0.0/27"))
	share(pool, s.tenant.Path)
	framework.Create(t, owner, pool)
	holds, waits := gen.Claim("holds", gen.FromPoolIn(owner.Path, "lent"), gen.Length(28)), gen.Claim("waits", gen.FromPoolIn(owner.Path, "lent"), gen.Length(27))
	framework.Create(t, s.tenant, holds)
	framework.WaitBound(t, s.tenant, holds)
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

// The same with a class, and with a pool of the platform behind one.
func TestSharing_ClassWithdrawn(t *testing.T) {
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

// A class that is narrowed to some serves them by its name, though nobody sees it listed.
func TestSharing_NarrowedClass(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	other := s.platform.Tenant(t)
	s.class(gen.Consumers{ipamv1alpha1.Consumer(s.tenant.Path)})
	s.pool(s.cidr)
	s.holds("web", gen.Length(28))
	claim := gen.Claim("web", gen.OfClass(s.name), gen.Length(28))
	framework.Create(t, other, claim)
	framework.WaitAllocated(t, other, claim, ipamv1alpha1.ReasonClassNotFound)

	classes := &ipamv1alpha1.IPClassList{}
	if err := s.tenant.List(t.Context(), classes); err != nil {
		t.Fatalf("List: %v", err)
	}
	for _, class := range classes.Items {
		if class.Name == s.name {
			t.Errorf("class %s is listed, which is not for everybody", class.Name)
		}
	}
}

// A pool of the platform that is shared is named by the platform's path.
func TestSharing_PlatformsPool(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pool := gen.Pool(s.name, gen.CIDR(s.cidr))
	share(pool, s.tenant.Path)
	framework.Create(t, s.platform, pool)
	claim := gen.Claim("web", gen.FromPoolIn(s.platform.Path, s.name), gen.Length(28))
	refused := claim.DeepCopy()
	framework.Create(t, s.tenant, claim)
	framework.WaitBound(t, s.tenant, claim)
	waitHeld(t, s.platform, pool, size(blockOf(t, claim)))

	other := s.platform.Tenant(t)
	framework.Create(t, other, refused)
	framework.WaitAllocated(t, other, refused, ipamv1alpha1.ReasonPoolNotFound)
}

// share makes a pool one that these workspaces may use.
func share(pool *ipamv1alpha1.IPPool, consumers ...string) {
	pool.Spec.Visibility = ipamv1alpha1.VisibilityShared
	pool.Spec.Consumers = nil
	for _, path := range consumers {
		pool.Spec.Consumers = append(pool.Spec.Consumers, ipamv1alpha1.Consumer(path))
	}
}

// grant has a tenant's pool admit these workspaces and no others.
func grant(t *testing.T, owner *framework.Tenant, pool *ipamv1alpha1.IPPool, consumers ...string) {
	t.Helper()
	framework.Eventually(t, "the pool to be changed", func(ctx context.Context) error {
		if err := owner.Get(ctx, client.ObjectKeyFromObject(pool), pool); err != nil {
			return err
		}
		share(pool, consumers...)
		return owner.Update(ctx, pool)
	})
}
