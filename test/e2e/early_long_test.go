//go:build long

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A controller that has just started answers CREATE by class and by pool before it can list the claims. It knows
// which names are in use, and which IPAllocation retains a block of a former claim. When the claims are listed, all
// are bound, each once.
func TestLong_CreateIsAnsweredBeforeClaimsAreListed(t *testing.T) {
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
	ofClass := s.answered(gen.OfClass(s.name))
	link.WaitFailed(t, 1)
	own := s.answered(gen.FromPool("own"))
	claims = append(claims, ofClass...)
	if err := s.tenant.Create(t.Context(), gen.Claim(claims[0].Name, gen.OfClass(s.name), gen.Length(28))); !apierrors.IsAlreadyExists(err) {
		t.Errorf("the CREATE of a claim that exists ends with %v, want AlreadyExists", err)
	}
	again := s.refused("kept", ipamv1alpha1.ReasonAllocationRetained)
	if err := platform.Probe(t.Context(), "/readyz/workspaces"); err != nil {
		t.Errorf("the controller is not ready while it lists the claims: %v", err)
	}

	link.Restore()
	framework.WaitBound(t, s.tenant, append(own, claims...)...)
	blocks := append(blocksOf(t, claims...), blockOf(t, kept))
	disjointIn(t, s.cidr, blocks...)
	waitHeld(t, platform, pool, size(blocks...))
	framework.Delete(t, s.tenant, again)
	platform.WaitVerified(t)
}

// answered makes claims until one CREATE is answered, which may take longer than a CREATE waits. It returns all these
// claims.
func (s scene) answered(from gen.ClaimOption) []*ipamv1alpha1.IPClaim {
	s.Helper()
	var made []*ipamv1alpha1.IPClaim
	framework.Eventually(s, "CREATE to be answered", func(ctx context.Context) error {
		early := gen.Claim("", from, gen.Length(28))
		early.GenerateName = "early-"
		if err := s.tenant.Create(ctx, early); err != nil {
			return err
		}
		made = append(made, early)
		if early.Status.Phase != ipamv1alpha1.ClaimBound || early.Status.AllocatedCIDR == "" {
			return fmt.Errorf("it is answered with %+v", early.Status)
		}
		return nil
	})
	return made
}

// refused makes a claim of the class until its CREATE is answered with a reason, which may take longer than a CREATE
// waits. A claim without an answer is deleted: the controller does not see it while it cannot list the claims.
func (s scene) refused(name string, reason ipamv1alpha1.Reason) (claim *ipamv1alpha1.IPClaim) {
	s.Helper()
	framework.Eventually(s, "CREATE to be refused", func(ctx context.Context) error {
		claim = gen.Claim(name, gen.OfClass(s.name), gen.Length(28))
		if err := s.tenant.Create(ctx, claim); err != nil {
			return err
		}
		got := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionAllocated)
		if got != nil && got.Reason == string(reason) {
			return nil
		}
		return cmp.Or(s.tenant.Delete(ctx, claim), fmt.Errorf("it is answered with %+v", claim.Status))
	})
	return claim
}
