package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"github.com/kcp-dev/sdk/apis/third_party/conditions/util/conditions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// holding is a finalizer with which a test holds the deletion of a binding.
const holding = "e2e.example.com/hold"

// kcp accepts a second binding to the same export, but never binds it. The second binding changes nothing for its
// workspace: not while it exists, not while it is being deleted, and not when it is gone.
func TestBinding_IgnoresASecondOne(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	s.pool(s.cidr)
	own := s.ownPool(gen.CIDR(s.platform.CIDR(t)))
	s.served("before", own)

	admin := framework.Admin(t, s.tenant.Path)
	second := s.secondBinding(admin, holding)
	s.served("beside", own)

	framework.Delete(t, admin, second)
	framework.WaitFor(t, admin, second, func(binding *apisv1alpha2.APIBinding) error {
		if binding.DeletionTimestamp.IsZero() {
			return fmt.Errorf("it is not being deleted")
		}
		return nil
	})
	s.served("leaving", own)

	letGo(t, admin, second)
	framework.WaitGone(t, admin, second)
	s.served("after", own)
}

// A tenant may not write the status of an APIBinding, not even of a binding to its own export. By that status, kcp
// routes requests to storage, webhooks and policies.
func TestBinding_KeepsItsStatusFromTenants(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	owner := s.tenant.Owner(t)
	export, own := &apisv1alpha2.APIExport{}, &apisv1alpha2.APIBinding{}
	export.Name, own.Name = "own", "own"
	own.Spec.Reference.Export = &apisv1alpha2.ExportBindingReference{Name: export.Name}
	framework.Create(t, owner, export)
	framework.Eventually(t, "kcp to know the export", func(ctx context.Context) error { return owner.Create(ctx, own) })
	bindings := &apisv1alpha2.APIBindingList{}
	must.Do(t, owner.List(t.Context(), bindings))
	if len(workspaces.Bindings(bindings)) != 1 || len(bindings.Items) < 2 {
		t.Fatalf("the bindings are %+v, want one to the platform's export, and one of the owner's", bindings.Items)
	}
	for _, binding := range bindings.Items {
		before := binding.DeepCopy()
		binding.Status.APIExportClusterName, binding.Status.BoundResources = "forged", nil
		if err := owner.Status().Patch(t.Context(), &binding, client.MergeFrom(before)); !apierrors.IsForbidden(err) {
			t.Errorf("the owner's patch of the status of %s: %v, want it forbidden", binding.Name, err)
		}
	}
}

// When the binding that serves a workspace goes, kcp binds the binding that waited beside it, and the workspace is
// served again.
func TestBinding_TheSecondTakesOver(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.tenant = s.platform.TenantAt(t, "root:"+s.name)
	s.class()
	pool := s.pool(part(s.cidr, 24))
	s.holds("before", gen.Length(28))
	pastSecondOf(t, s.holds("kept", gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimRetain)))
	admin := framework.Admin(t, s.tenant.Path)
	second := s.secondBinding(admin)

	s.tenant.Unbind(t)
	framework.WaitFor(t, admin, second, func(binding *apisv1alpha2.APIBinding) error {
		if binding.Status.Phase != apisv1alpha2.APIBindingPhaseBound {
			return fmt.Errorf("it is not bound")
		}
		return nil
	})
	s.holdsAlone(pool, claimAnew(t, s.tenant, s.name))

	s.tenant.Bind(t) // which completes the existing binding, whatever its name
	bindings := &apisv1alpha2.APIBindingList{}
	must.Do(t, admin.List(t.Context(), bindings))
	if known := workspaces.Bindings(bindings); len(known) != 1 || known[0].Name != second.Name {
		t.Errorf("the bindings are %+v, want %s alone", known, second.Name)
	}
}

// A binding that is created again right after it is gone serves none of the former binding's claims. What these held
// is released, whatever their policy, and none of their records appears.
func TestBinding_ComesBackAtOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	pool := s.pool(part(s.cidr, 24))
	var last *ipamv1alpha1.IPClaim
	for _, policy := range []ipamv1alpha1.ReclaimPolicy{ipamv1alpha1.ReclaimDelete, ipamv1alpha1.ReclaimRetain} {
		for i := range 3 {
			last = s.holds(fmt.Sprint(strings.ToLower(string(policy)), i), gen.Length(28), gen.Reclaim(policy))
		}
	}
	pastSecondOf(t, last)
	s.tenant.Unbind(t)
	s.tenant.Bind(t)
	s.holdsAlone(pool, claimAnew(t, s.tenant, s.name))
}

// pastSecondOf waits until the second in which a claim was created is over. kcp counts in seconds: only a binding
// that is created in a later second shows that the claim went with a former binding.
func pastSecondOf(t *testing.T, claim *ipamv1alpha1.IPClaim) {
	t.Helper()
	framework.Eventually(t, "the next second to begin", func(context.Context) error {
		if now := time.Now(); now.Before(claim.CreationTimestamp.Add(time.Second)) {
			return fmt.Errorf("it is %s", now)
		}
		return nil
	})
}

// holdsAlone waits until the claim is the only holder in the pool, and its record the only record of the tenant.
func (s scene) holdsAlone(pool *ipamv1alpha1.IPPool, claim *ipamv1alpha1.IPClaim) {
	s.Helper()
	waitHeld(s.T, s.platform, pool, size(blockOf(s.T, claim)))
	records := &ipamv1alpha1.IPAllocationList{}
	must.Do(s, s.tenant.List(s.Context(), records))
	if len(records.Items) != 1 || records.Items[0].Status.AllocatedCIDR != claim.Status.AllocatedCIDR {
		s.Errorf("the tenant has the records %+v, want that of %s alone", records.Items, claim.Status.AllocatedCIDR)
	}
}

// served fails the test unless the workspace's claims are bound, by class and by pool, and a pool that holds blocks
// says that it is in use.
func (s scene) served(name string, own *ipamv1alpha1.IPPool) {
	s.Helper()
	s.holds(name, gen.Length(28))
	pool := gen.Pool(name, gen.ChildOf(own.Name, 24))
	claim := gen.Claim(name+"-of-own", gen.FromPool(name), gen.Length(28))
	framework.Create(s, s.tenant, pool, claim)
	framework.WaitBound(s, s.tenant, claim)
	framework.WaitCondition(s, s.tenant, pool, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonInUse)
}

// secondBinding binds the export again, and waits until kcp says that it does not bind it.
func (s scene) secondBinding(admin client.Client, finalizers ...string) *apisv1alpha2.APIBinding {
	s.Helper()
	binding := &apisv1alpha2.APIBinding{}
	binding.Name, binding.Finalizers = "ipam-again", finalizers
	binding.Spec.Reference.Export = &apisv1alpha2.ExportBindingReference{Path: s.platform.Path, Name: workspaces.ExportName}
	framework.Create(s, admin, binding)
	framework.WaitFor(s, admin, binding, func(binding *apisv1alpha2.APIBinding) error {
		if conditions.GetReason(binding, apisv1alpha2.InitialBindingCompleted) != apisv1alpha2.NamingConflictsReason {
			return fmt.Errorf("it is not refused")
		}
		return nil
	})
	return binding
}

// letGo removes the test's finalizer from a binding.
func letGo(t *testing.T, admin client.Client, binding *apisv1alpha2.APIBinding) {
	t.Helper()
	framework.WaitFor(t, admin, binding, func(binding *apisv1alpha2.APIBinding) error {
		kept := binding.Finalizers[:0]
		for _, finalizer := range binding.Finalizers {
			if finalizer != holding {
				kept = append(kept, finalizer)
			}
		}
		binding.Finalizers = kept
		return admin.Update(t.Context(), binding)
	})
}

// claimAnew waits until the tenant's API is served, and then makes a claim and waits until it is bound.
func claimAnew(t *testing.T, tenant *framework.Tenant, class string) *ipamv1alpha1.IPClaim {
	t.Helper()
	claim := gen.Claim("web", gen.OfClass(class), gen.Length(28))
	framework.Eventually(t, "a claim to be made", func(ctx context.Context) error { return tenant.Create(ctx, claim) })
	framework.WaitBound(t, tenant, claim)
	return claim
}

const (
	stay    = "example.com/stay"
	stays   = `{"metadata": {"finalizers": ["` + stay + `"]}}`
	letsGo  = `{"metadata": {"finalizers": null}}`
	waiters = 5
)

// A tenant keeps deleted claims by finalizers of its own. Those that wait are no longer served, however old they are.
// One that is bound keeps its block until it is gone.
func TestFinalizers_KeepTheBlockOfADeletedClaim(t *testing.T) {
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

// A tenant keeps its APIBinding by a finalizer. Then nothing can be claimed in the workspace, the blocks of its
// claims are freed, and when the binding is gone the workspace may bind again.
func TestFinalizers_DelayTheEndOfABinding(t *testing.T) {
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
	// kcp lets nobody remove its own finalizer from a binding that is being deleted.
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

// finalizers changes the finalizers of an object.
func finalizers(t *testing.T, c client.Writer, object client.Object, change string) {
	t.Helper()
	must.Do(t, c.Patch(t.Context(), object, merge(change)))
}

// An annotation that kcp cannot convert to another version, on bindings to any export, stops neither the running
// controller nor the next one.
func TestBlind_ServesDespiteAnAnnotationThatKCPCannotConvert(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	name := framework.Name(t)
	offer(t, platform, name, platform.CIDR(t))
	odd, even := platform.TenantAt(t, "root:"+name), platform.Tenant(t)
	admin := framework.Admin(t, odd.Path)
	bindings := &apisv1alpha2.APIBindingList{}
	must.Do(t, admin.List(t.Context(), bindings))
	if len(bindings.Items) < 2 {
		t.Fatalf("the workspace has %d bindings, want those of others beside that of the platform", len(bindings.Items))
	}
	annotate := func(value string) {
		t.Helper()
		for i := range bindings.Items {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"apis.v1alpha2.kcp.io/v1alpha1-permission-claims":%s}}}`, value)
			if err := admin.Patch(context.WithoutCancel(t.Context()), &bindings.Items[i], client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
				t.Errorf("Patch: %v", err)
			}
		}
	}
	// Other tests on this kcp read bindings, too.
	t.Cleanup(func() { annotate("null") })
	annotate(`"x"`)
	serves := func(when string, tenants ...*framework.Tenant) {
		t.Helper()
		for _, tenant := range tenants {
			claim := gen.Claim(when, gen.OfClass(name), gen.Length(28))
			framework.Bind(t, tenant, claim)
		}
	}
	serves("running", odd, even, platform.Tenant(t))
	platform.KillController(t)
	platform.StartController(t)
	serves("restarted", odd, even, platform.Tenant(t))
}
