package e2e

import (
	"fmt"
	"slices"
	"testing"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

const (
	stay    = "example.com/stay"
	stays   = `{"metadata": {"finalizers": ["` + stay + `"]}}`
	letsGo  = `{"metadata": {"finalizers": null}}`
	waiters = 5
)

// A tenant has deleted claims stay by finalizers of its own. Those that wait are served no
// more, however old they are. One that is bound keeps its block until it is gone.
func TestFinalizers_OfClaims(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	s.pool(part(s.cidr, 26))
	holder := s.holds("holder", gen.Length(26))
	zombies := make([]*ipamv1alpha1.IPClaim, waiters)
	for i := range zombies {
		zombies[i] = gen.Claim(fmt.Sprint("zombie-", i), gen.OfClass(s.name), gen.Length(28))
		zombies[i].Finalizers = []string{stay}
		framework.Create(t, s.tenant, zombies[i])
		framework.WaitAllocated(t, s.tenant, zombies[i], ipamv1alpha1.ReasonPoolExhausted)
		framework.Delete(t, s.tenant, zombies[i])
	}
	other := s.platform.Tenant(t)
	honest := gen.Claim("honest", gen.OfClass(s.name), gen.Length(26))
	framework.Create(t, other, honest)
	framework.WaitAllocated(t, other, honest, ipamv1alpha1.ReasonPoolExhausted)

	finalizers(t, s.tenant, holder, stays)
	framework.Delete(t, s.tenant, holder)
	framework.WaitFor(t, s.tenant, holder, func(claim *ipamv1alpha1.IPClaim) error {
		if claim.Status.Phase != ipamv1alpha1.ClaimReleasing || claim.Status.AllocatedCIDR == "" {
			return fmt.Errorf("it is %s, with %q; want Releasing, with its block", claim.Status.Phase, claim.Status.AllocatedCIDR)
		}
		return nil
	})
	framework.WaitAllocated(t, other, honest, ipamv1alpha1.ReasonPoolExhausted)
	finalizers(t, s.tenant, holder, letsGo)
	framework.WaitBound(t, other, honest)
	for _, zombie := range zombies {
		framework.WaitFor(t, s.tenant, zombie, func(claim *ipamv1alpha1.IPClaim) error {
			if claim.Status.AllocatedCIDR != "" {
				return fmt.Errorf("it is bound to %s; want a deleted claim not to be bound", claim.Status.AllocatedCIDR)
			}
			return nil
		})
		finalizers(t, s.tenant, zombie, letsGo)
	}
}

// A tenant has its APIBinding stay by a finalizer. Nothing can be claimed there any more,
// what was claimed is freed, and when the binding is gone the workspace may bind again.
func TestFinalizers_OfABinding(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	pool := s.pool(s.cidr)
	s.holds("held", gen.Length(28))
	owner, binding := s.tenant.Owner(t), &apisv1alpha2.APIBinding{}
	binding.Name = workspaces.BindingName
	finalizers(t, owner, binding, stays)
	framework.Delete(t, owner, binding)
	waitHeld(t, s.platform, pool, size())
	if err := s.tenant.Create(t.Context(), gen.Claim("late", gen.OfClass(s.name), gen.Length(28))); !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		t.Errorf("Create of a claim while the binding goes = %v; want it refused", err)
	}
	// kcp lets nobody take its own finalizer off a binding that goes.
	framework.WaitFor(t, owner, binding, func(binding *apisv1alpha2.APIBinding) error {
		if !slices.Equal(binding.Finalizers, []string{stay}) {
			return fmt.Errorf("it has the finalizers %q; want the tenant's alone", binding.Finalizers)
		}
		return nil
	})
	finalizers(t, owner, binding, letsGo)
	framework.WaitGone(t, owner, binding)
	s.tenant.Bind(t)
	again := s.holds("again", gen.Length(28))
	waitHeld(t, s.platform, pool, size(blockOf(t, again)))
}

// finalizers changes those of an object.
func finalizers(t *testing.T, c client.Writer, object client.Object, change string) {
	t.Helper()
	must.Do(t, c.Patch(t.Context(), object, merge(change)))
}
