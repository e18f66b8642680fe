package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// A tenant has an export of its own that claims the kinds of this API. Another tenant, who conspires with it, accepts
// that. Through the export's endpoint, the first tenant sees only that workspace, and cannot forge anything there,
// either.
func TestForeignExport(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	pool := s.pool(s.cidr)
	spy := newSpy(s)
	mate, victim := s.platform.Tenant(t), s.platform.Tenant(t)
	theirs, mates := gen.Claim("theirs", gen.OfClass(s.name), gen.Length(28)), gen.Claim("mates", gen.OfClass(s.name), gen.Length(28))
	own := gen.Pool("own", gen.CIDR("10.0.0.0/24"))
	framework.Create(t, victim, theirs, gen.Pool("private", gen.CIDR("10.0.0.0/24")))
	framework.Create(t, mate, mates, own)
	framework.WaitBound(t, victim, theirs)
	framework.WaitBound(t, mate, mates)
	framework.WaitAllocated(t, mate, own, ipamv1alpha1.ReasonAllocationSucceeded)
	before, record := recordOf(t, victim, theirs), recordOf(t, mate, mates)

	spy.boundBy(mate)
	everywhere := spy.at("*")
	framework.Eventually(t, "the export's endpoint to show the mate's claim", func(ctx context.Context) error {
		claims := &ipamv1alpha1.IPClaimList{}
		if err := everywhere.List(ctx, claims); err != nil {
			return err
		}
		if len(claims.Items) != 1 || claims.Items[0].UID != mates.UID {
			return fmt.Errorf("it shows %d claims", len(claims.Items))
		}
		return nil
	})
	for _, list := range []client.ObjectList{&ipamv1alpha1.IPPoolList{}, &ipamv1alpha1.IPAllocationList{}, &ipamv1alpha1.IPClaimList{}, &ipamv1alpha1.IPClassList{}} {
		spy.seesOnly(everywhere, list, mate.Cluster)
	}
	for _, cluster := range []logicalcluster.Name{victim.Cluster, s.platform.Cluster} {
		spy.isShutOut(spy.at(cluster.String()), theirs, pool)
	}

	inMate := spy.at(mate.Cluster.String())
	spy.forgesNothing(inMate, mates, record, own)
	unchanged(t, victim, theirs)
	if now := recordOf(t, victim, theirs); now.ResourceVersion != before.ResourceVersion {
		t.Errorf("the victim's record was written:\nbefore %+v\nafter  %+v", before, now)
	}
	now := &ipamv1alpha1.IPClaim{} // kcp labels the objects that an export claims
	must.Do(t, mate.Get(t.Context(), client.ObjectKeyFromObject(mates), now))
	if diff := cmp.Diff(mates.Status, now.Status); diff != "" {
		t.Errorf("the status of the mate's claim has changed (-before +after):\n%s", diff)
	}
	was, is := record.DeepCopy(), recordOf(t, mate, now)
	was.ObjectMeta, is.ObjectMeta = metav1.ObjectMeta{UID: was.UID}, metav1.ObjectMeta{UID: is.UID}
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("the record of the mate's claim has changed (-before +after):\n%s", diff)
	}
	waitHeld(t, s.platform, pool, size(blockOf(t, theirs), blockOf(t, mates)))
}

// spy is the owner of a workspace with an export that claims the kinds of this API.
type spy struct {
	scene
	access *rest.Config
	client client.Client
	export *apisv1alpha2.APIExport
}

// newSpy makes the export, as the owner of the scene's tenant. Everybody may bind it.
func newSpy(s scene) *spy {
	s.Helper()
	binding := &apisv1alpha2.APIBinding{}
	access := s.tenant.OwnerConfig(s)
	owner := must.Get(workspaces.NewClient(access))(s)
	must.Do(s, owner.Get(s.Context(), client.ObjectKey{Name: workspaces.BindingName}, binding))
	p := &spy{scene: s, access: access, client: owner, export: &apisv1alpha2.APIExport{}}
	p.export.Name = "spy"
	for _, bound := range binding.Status.BoundResources {
		p.export.Spec.PermissionClaims = append(p.export.Spec.PermissionClaims, apisv1alpha2.PermissionClaim{
			GroupResource: apisv1alpha2.GroupResource{Group: bound.Group, Resource: bound.Resource},
			IdentityHash:  bound.Schema.IdentityHash,
			Verbs:         []string{"*"},
		})
	}
	if len(p.export.Spec.PermissionClaims) != 4 {
		s.Fatalf("the binding has %d resources; want the four kinds", len(p.export.Spec.PermissionClaims))
	}
	framework.Create(s, owner, p.export)
	may := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{apisv1alpha2.SchemeGroupVersion.Group}, Resources: []string{"apiexports"}, ResourceNames: []string{"spy"}, Verbs: []string{"bind"},
	}}}
	may.Name = "bind-spy"
	everybody := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: may.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}},
	}
	everybody.Name = may.Name
	framework.Create(s, owner, may, everybody)
	return p
}

// boundBy binds the export in another workspace, as the workspace's owner, and accepts all that the export claims.
func (p *spy) boundBy(tenant *framework.Tenant) {
	p.Helper()
	owner, binding := tenant.Owner(p), &apisv1alpha2.APIBinding{}
	binding.Name = "spy"
	binding.Spec.Reference.Export = &apisv1alpha2.ExportBindingReference{Path: p.tenant.Path, Name: "spy"}
	for _, claim := range p.export.Spec.PermissionClaims {
		binding.Spec.PermissionClaims = append(binding.Spec.PermissionClaims, apisv1alpha2.AcceptablePermissionClaim{
			ScopedPermissionClaim: apisv1alpha2.ScopedPermissionClaim{
				PermissionClaim: claim, Selector: apisv1alpha2.PermissionClaimSelector{MatchAll: true},
			},
			State: apisv1alpha2.ClaimAccepted,
		})
	}
	framework.Eventually(p, "the mate's owner to bind the export", func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(owner.Create(ctx, binding))
	})
	framework.Eventually(p, "the claims to be applied", func(ctx context.Context) error {
		if err := owner.Get(ctx, client.ObjectKeyFromObject(binding), binding); err != nil {
			return err
		}
		if applied := len(binding.Status.AppliedPermissionClaims); applied != len(p.export.Spec.PermissionClaims) {
			return fmt.Errorf("%d are; phase %s, conditions %+v", applied, binding.Status.Phase, binding.Status.Conditions)
		}
		return nil
	})
}

// at returns a client of a logical cluster at the export's endpoint.
func (p *spy) at(cluster string) client.Client {
	p.Helper()
	access := rest.CopyConfig(p.access)
	framework.Eventually(p, "the export's endpoint", func(ctx context.Context) error {
		slice := &apisv1alpha1.APIExportEndpointSlice{}
		if err := p.client.Get(ctx, client.ObjectKey{Name: "spy"}, slice); err != nil {
			return err
		}
		if len(slice.Status.APIExportEndpoints) == 0 {
			return fmt.Errorf("the slice lists none")
		}
		access.Host = slice.Status.APIExportEndpoints[0].URL + "/clusters/" + cluster
		return nil
	})
	return must.Get(workspaces.NewClient(access))(p)
}

// seesOnly fails the test if a list shows an object of another cluster. A refused list shows none.
func (p *spy) seesOnly(c client.Client, list client.ObjectList, cluster logicalcluster.Name) {
	p.Helper()
	if err := c.List(p.Context(), list); err != nil {
		p.Logf("list %T: %v", list, err)
		return
	}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object := item.(client.Object)
		if in := logicalcluster.From(object); in != cluster {
			return fmt.Errorf("%T %s of cluster %s", object, object.GetName(), in)
		}
		return nil
	})
	if err != nil {
		p.Errorf("the export shows %v; want those of %s alone", err, cluster)
	}
}

// isShutOut fails the test if any object can be read or written.
func (p *spy) isShutOut(c client.Client, claim *ipamv1alpha1.IPClaim, pool *ipamv1alpha1.IPPool) {
	p.Helper()
	for what, do := range map[string]func(context.Context) error{
		"list claims": func(ctx context.Context) error { return c.List(ctx, &ipamv1alpha1.IPClaimList{}) },
		"list pools":  func(ctx context.Context) error { return c.List(ctx, &ipamv1alpha1.IPPoolList{}) },
		"get a claim": func(ctx context.Context) error {
			return c.Get(ctx, client.ObjectKeyFromObject(claim), claim.DeepCopy())
		},
		"get a pool": func(ctx context.Context) error { return c.Get(ctx, client.ObjectKeyFromObject(pool), pool.DeepCopy()) },
		"make a claim": func(ctx context.Context) error {
			return c.Create(ctx, gen.Claim("planted", gen.OfClass(p.name), gen.Length(28)))
		},
		"delete it": func(ctx context.Context) error { return c.Delete(ctx, claim.DeepCopy()) },
		"change a status": func(ctx context.Context) error {
			return c.Status().Patch(ctx, pool.DeepCopy(), merge(`{"status": {"phase": "Exhausted"}}`))
		},
	} {
		err := do(p.Context())
		if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
			p.Errorf("%s in a workspace that did not bind the export: %v; want it refused", what, err)
		}
	}
}

// forgesNothing fails the test if anything can be written that only the system may write.
func (p *spy) forgesNothing(c client.Client, claim *ipamv1alpha1.IPClaim, record *ipamv1alpha1.IPAllocation, pool *ipamv1alpha1.IPPool) {
	p.Helper()
	forged := gen.Allocation("forged", p.name, "192.0.2.0/28")
	forged.UID, forged.Generation = "", 0
	slice := gen.Pool("slice", gen.CIDR("10.9.0.0/24"), gen.Label(ipamv1alpha1.LabelSlice, "forged"))
	slice.UID, slice.Generation = "", 0
	// A webhook restores the status, or a policy refuses the patch. The caller compares what is stored.
	_ = c.Patch(p.Context(), claim.DeepCopy(), merge(`{"status": {"allocatedCIDR": "192.0.2.0/28"}}`))
	for what, do := range map[string]func(context.Context) error{
		"the status of a claim in the controller's version": func(ctx context.Context) error {
			return c.Status().Patch(ctx, written(claim), merge(`{"status": {"allocatedCIDR": "192.0.2.0/28"}}`))
		},
		"the status of a pool": func(ctx context.Context) error {
			return c.Status().Patch(ctx, pool.DeepCopy(), merge(`{"status": {"allocatedCIDR": "192.0.2.0/24"}}`))
		},
		"a record": func(ctx context.Context) error { return c.Create(ctx, forged) },
		"a change of record": func(ctx context.Context) error {
			return c.Patch(ctx, record.DeepCopy(), merge(`{"status": {"allocatedCIDR": "192.0.2.0/28"}}`))
		},
		"no record":            func(ctx context.Context) error { return c.Delete(ctx, record.DeepCopy()) },
		"the label of a slice": func(ctx context.Context) error { return c.Create(ctx, slice) },
	} {
		if err := do(p.Context()); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			p.Errorf("through the endpoint of its own export a tenant writes %s: %v; want it refused", what, err)
		}
	}
}
