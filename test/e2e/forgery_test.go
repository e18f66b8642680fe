package e2e

import (
	"testing"
	"time"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/apis/ipam/v1controller1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// No user creates a claim with a status: not the owner of the workspace, not kcp's admin, and
// not a service account of the controller's name. Some attacks are refused, and some create
// a claim without the status.
func TestForgery_OfANewClaim(t *testing.T) {
	t.Parallel()
	tenant := framework.SharedPlatform(t).Tenant(t)
	for _, f := range forgersOf(t, tenant) {
		if stored := f.creates(attacksOnCreate); stored == 0 {
			t.Errorf("%s: no attack created a claim; want one of those whose status the webhook removes", f.who)
		}
	}
}

// No user changes or removes the status of a bound claim.
func TestForgery_OfABoundClaim(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	s.pool(s.cidr)
	claim := s.holds("web", gen.Length(28))
	for _, f := range forgersOf(t, s.tenant) {
		f.changes(claim, attacksOnChange)
	}
	framework.Update(t, s.tenant, claim, func(claim *ipamv1alpha1.IPClaim) { claim.Labels = map[string]string{"a": "b"} })
	framework.WaitBound(t, s.tenant, claim)
}

// forgersOf returns the users with the most rights in a tenant's workspace.
func forgersOf(t *testing.T, tenant *framework.Tenant) []forger {
	t.Helper()
	admin := workspaces.At(framework.AdminConfig(t), tenant.Path)
	namesake(t, tenant, tenant.Owner(t))
	account := staticConfig(t, tenant)
	requested := must.Get(workspaces.TokenConfig(t.Context(), admin, time.Hour))(t)
	return []forger{
		newForger(t, "the owner", tenant.OwnerConfig(t)),
		newForger(t, "kcp's admin", admin),
		newForger(t, "a namesake of the controller", account),
		newForger(t, "a namesake with a token that it requested", requested),
	}
}

// written is a claim in the version in which the controller writes its status.
func written(claim *ipamv1alpha1.IPClaim) *v1controller1.IPClaim {
	return &v1controller1.IPClaim{IPClaim: *claim.DeepCopy()}
}
