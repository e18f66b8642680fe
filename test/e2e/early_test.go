package e2e

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A controller that has just started answers CREATE while the claims cannot be listed, by class and by pool. It knows which
// names are taken, and which IPAllocation keeps a block from a former claim. When the claims are listed all is bound, each once.
func TestEarly_CreateIsAnsweredBeforeClaimsAreListed(t *testing.T) {
	t.Parallel()
	link, platform := framework.NewPlatform(t).Link(t, "linked", sweeping...)
	platform.StartController(t)
	s := scene{T: t, platform: platform, tenant: platform.Tenant(t), name: framework.Name(t), cidr: platform.CIDR(t)}
	s.class()
	pool := s.pool(s.cidr)
	s.ownPool(gen.CIDR("192.0.2.0/24"))
	kept := s.holds("kept", gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	claims := bindSome(t, s.tenant, s.name, "before", 3)
	framework.Delete(t, s.tenant, kept)
	s.retained(kept)
	platform.StopController(t)

	link.Fail(lists("ipclaims"))
	platform.StartController(t)
	framework.Eventually(t, "CREATE to be answered", func(ctx context.Context) error {
		early := gen.Claim("", gen.OfClass(s.name), gen.Length(28))
		early.GenerateName = "early-"
		if err := s.tenant.Create(ctx, early); err != nil {
			return err
		}
		claims = append(claims, early)
		if early.Status.AllocatedCIDR == "" {
			return errors.New("it is not")
		}
		return nil
	})
	link.WaitFailed(t, 1)
	own := gen.Claim("own", gen.FromPool("own"), gen.Length(28))
	framework.Create(t, s.tenant, own)
	if own.Status.Phase != ipamv1alpha1.ClaimBound {
		t.Errorf("the CREATE of a claim of the tenant's own pool is answered with %+v, want that it is bound", own.Status)
	}
	if err := s.tenant.Create(t.Context(), gen.Claim(claims[0].Name, gen.OfClass(s.name), gen.Length(28))); !apierrors.IsAlreadyExists(err) {
		t.Errorf("the CREATE of a claim that exists ends with %v, want AlreadyExists", err)
	}
	again := gen.Claim("kept", gen.OfClass(s.name), gen.Length(28))
	framework.Create(t, s.tenant, again)
	framework.WaitAllocated(t, s.tenant, again, ipamv1alpha1.ReasonAllocationRetained)
	if err := platform.Probe(t.Context(), "/readyz/workspaces"); err != nil {
		t.Errorf("the controller is not ready while it lists the claims: %v", err)
	}

	link.Restore()
	framework.WaitBound(t, s.tenant, append(claims, own)...)
	blocks := append(blocksOf(t, claims...), blockOf(t, kept))
	disjointIn(t, s.cidr, blocks...)
	waitHeld(t, platform, pool, size(blocks...))
	framework.Delete(t, s.tenant, again)
	platform.WaitVerified(t)
}
