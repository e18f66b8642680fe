package e2e

import (
	"context"
	"strings"
	"testing"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// The controller's token gives only the rights that the controller needs. It gives no access to the platform's
// secrets, roles, policies and workspaces, or to another export. Of a tenant it gives access only to the objects of
// this API.
func TestIdentity_MayDoNothingElse(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	tenant := platform.Tenant(t)
	claim := gen.Claim("web", gen.OfClass("none"), gen.Length(28))
	framework.Create(t, tenant, claim)
	framework.WaitAllocated(t, tenant, claim, ipamv1alpha1.ReasonClassNotFound)
	endpoint := endpointOf(t, platform)
	here, through := asClient(t, platform.Identity()), asClient(t, at(platform, endpoint+"/clusters/"+tenant.Cluster.String()))
	all := asClient(t, at(platform, endpoint+"/clusters/*"))

	for what, err := range map[string]error{
		"list the platform's pools": here.List(t.Context(), &ipamv1alpha1.IPPoolList{}),
		"list all claims":           all.List(t.Context(), &ipamv1alpha1.IPClaimList{}),
		"read a tenant's claim":     through.Get(t.Context(), client.ObjectKeyFromObject(claim), claim),
		"patch a tenant's status":   through.Status().Patch(t.Context(), written(claim), merge(`{"status": {}}`), client.DryRunAll),
	} {
		if err != nil {
			t.Errorf("the controller may not %s: %v", what, err)
		}
	}

	is := func(kind, name string) *unstructured.Unstructured { return objectOf(t, kind, name) }
	refused, absent := deny{T: t}, deny{T: t, noKind: true}
	for _, secret := range []string{"ipam-system/any", "kcp-system/ipam.miloapis.com"} {
		refused.get(here, is("v1 Secret", secret))
	}
	for _, kind := range []string{"v1 Secret", "v1 ConfigMap", "v1 Namespace", "apis.kcp.io/v1alpha2 APIExport", "apis.kcp.io/v1alpha2 APIBinding", "core.kcp.io/v1alpha1 LogicalCluster", "coordination.k8s.io/v1 Lease"} {
		refused.list(here, kind)
	}
	for _, object := range []*unstructured.Unstructured{
		is("tenancy.kcp.io/v1alpha1 Workspace", "mine"), is("apis.kcp.io/v1alpha2 APIExport", "mine"), is("v1 Namespace", "mine"),
		is("rbac.authorization.k8s.io/v1 ClusterRole", "mine"), is("rbac.authorization.k8s.io/v1 ClusterRoleBinding", "mine"),
		is("v1 ServiceAccount", "ipam-system/mine"), is("v1 Secret", "ipam-system/mine"), is("ipam.miloapis.com/v1alpha1 IPClass", "mine"),
		is("ipam.miloapis.com/v1alpha1 IPClaim", "default/mine"),
	} {
		refused.create(here, object)
	}
	for _, object := range []*unstructured.Unstructured{
		is("apis.kcp.io/v1alpha2 APIExport", "ipam.miloapis.com"), is("rbac.authorization.k8s.io/v1 ClusterRole", "ipam-controller"),
		is("admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy", "ipam-status"), is("ipam.miloapis.com/v1alpha1 IPClass", "any"),
		is("coordination.k8s.io/v1 Lease", "ipam-system/ipam-controller"),
		is("apiextensions.k8s.io/v1 CustomResourceDefinition", "ippools.ipam.miloapis.com"), is("core.kcp.io/v1alpha1 LogicalCluster", "cluster"),
	} {
		refused.remove(here, object)
	}
	refused.patch(here, is("rbac.authorization.k8s.io/v1 ClusterRole", "ipam-controller"))
	refused.patch(here, is("apis.kcp.io/v1alpha2 APIExport", "ipam.miloapis.com"))

	absent.allOf(through, claim)
	for _, kind := range []string{"v1 Secret", "v1 ConfigMap", "v1 Namespace", "rbac.authorization.k8s.io/v1 ClusterRole", "core.kcp.io/v1alpha1 LogicalCluster", "tenancy.kcp.io/v1alpha1 Workspace"} {
		absent.list(through, kind)
	}
	absent.patch(through, is("apis.kcp.io/v1alpha2 APIBinding", "ipam"))
	absent.remove(through, is("apis.kcp.io/v1alpha2 APIBinding", "ipam"))

	other := strings.Replace(endpoint, platform.Cluster.String()+"/"+ipamv1alpha1.GroupName, "root/tenancy.kcp.io", 1)
	absent.list(asClient(t, at(platform, other+"/clusters/*")), "tenancy.kcp.io/v1alpha1 Workspace")
	for _, elsewhere := range []string{"root", tenant.Path} {
		there := asClient(t, workspaces.At(platform.Identity(), elsewhere))
		absent.list(there, "tenancy.kcp.io/v1alpha1 Workspace")
		absent.list(there, "ipam.miloapis.com/v1alpha1 IPClaim")
	}
	for _, name := range []string{"kcp-admin", "system:admin"} {
		cfg := platform.Identity()
		cfg.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:masters"}}
		refused.list(asClient(t, cfg), "ipam.miloapis.com/v1alpha1 IPPool")
	}
}

// deny fails the test unless each request is refused.
type deny struct {
	*testing.T
	noKind bool // a kind that is not served counts as refused
}

func (d deny) check(err error, verb string, object client.Object) {
	d.Helper()
	if d.noKind && meta.IsNoMatchError(err) {
		return
	}
	if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
		d.Errorf("the controller may %s %s %s: %v", verb, object.GetObjectKind().GroupVersionKind().Kind, client.ObjectKeyFromObject(object), err)
	}
	if apierrors.IsNotFound(err) && !strings.Contains(err.Error(), "could not find the requested resource") {
		d.Errorf("the controller may %s %s, if there is one: %v", verb, object.GetObjectKind().GroupVersionKind().Kind, err)
	}
}

func (d deny) get(c client.Client, object *unstructured.Unstructured) {
	d.Helper()
	d.check(c.Get(d.Context(), client.ObjectKeyFromObject(object), object), "get", object)
}

func (d deny) list(c client.Client, kind string) {
	d.Helper()
	object := objectOf(d.T, kind, "")
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(object.GroupVersionKind().GroupVersion().WithKind(object.GetKind() + "List"))
	d.check(c.List(d.Context(), list), "list", object)
}

func (d deny) create(c client.Client, object *unstructured.Unstructured) {
	d.Helper()
	d.check(c.Create(d.Context(), object, client.DryRunAll), "create", object)
}

func (d deny) patch(c client.Client, object *unstructured.Unstructured) {
	d.Helper()
	d.check(c.Patch(d.Context(), object, merge(`{"metadata": {"labels": {"a": "b"}}}`), client.DryRunAll), "patch", object)
}

func (d deny) remove(c client.Client, object *unstructured.Unstructured) {
	d.Helper()
	d.check(c.Delete(d.Context(), object, client.DryRunAll), "delete", object)
}

func (d deny) allOf(c client.Client, object client.Object) {
	d.Helper()
	d.check(c.DeleteAllOf(d.Context(), object, client.InNamespace(object.GetNamespace()), client.DryRunAll), "delete all of", object)
}

// objectOf returns an object of a kind, like "v1 Secret", with a namespace and a name.
func objectOf(t *testing.T, kind, name string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	version, word, _ := strings.Cut(kind, " ")
	object.SetAPIVersion(version)
	object.SetKind(word)
	if namespace, rest, ok := strings.Cut(name, "/"); ok {
		object.SetNamespace(namespace)
		name = rest
	}
	object.SetName(name)
	return object
}

// asClient returns a client that knows the kinds of kcp and of this API.
func asClient(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	return must.Get(workspaces.NewClient(cfg))(t)
}

// at returns the controller's access to another address of the same server.
func at(platform *framework.Platform, host string) *rest.Config {
	cfg := platform.Identity()
	cfg.Host = host
	return cfg
}

// endpointOf returns the URL at which the platform's export shows its tenants.
func endpointOf(t *testing.T, platform *framework.Platform) string {
	t.Helper()
	slice := &apisv1alpha1.APIExportEndpointSlice{}
	c := asClient(t, platform.Identity())
	framework.Eventually(t, "an endpoint of the export", func(ctx context.Context) error {
		return c.Get(ctx, client.ObjectKey{Name: workspaces.ExportName}, slice)
	})
	if len(slice.Status.APIExportEndpoints) != 1 {
		t.Fatalf("the endpoints are %v", slice.Status.APIExportEndpoints)
	}
	return slice.Status.APIExportEndpoints[0].URL
}
