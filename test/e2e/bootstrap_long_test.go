//go:build long

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	cachev1alpha1 "github.com/kcp-dev/sdk/apis/cache/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/config"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// A second bootstrap changes no object. A changed schema reaches a workspace that was bound before, and keeps the claims stored
// there.
func TestLong_BootstrapChangesNothingWhenRepeated(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	staysAsItIs(t, platform)

	tenant := platform.Tenant(t)
	old := gen.Claim("old", gen.OfClass("none"))
	framework.Create(t, tenant, old)

	schemas, export := withClaimField(t, "purpose")
	must.Do(t, workspaces.Bootstrap(t.Context(), framework.AdminConfig(t), workspaces.Options{
		Workspace: platform.Path,
		Schemas:   schemas,
		APIExport: export,
	}))
	framework.Eventually(t, "the new field to be stored", func(ctx context.Context) error {
		claim := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"generateName": "new-", "namespace": metav1.NamespaceDefault},
			"spec":     map[string]any{"className": "none", "purpose": "web"},
		}}
		claim.SetGroupVersionKind(ipamv1alpha1.GroupVersion.WithKind("IPClaim"))
		if err := tenant.Create(ctx, claim); err != nil {
			return err
		}
		if purpose, _, _ := unstructured.NestedString(claim.Object, "spec", "purpose"); purpose != "web" {
			return errors.New("the server has dropped it")
		}
		return nil
	})
	if err := tenant.Get(t.Context(), client.ObjectKeyFromObject(old), old); err != nil {
		t.Errorf("the claim from before the upgrade: %v", err)
	}
}

// staysAsItIs fails the test if a second bootstrap changes anything.
func staysAsItIs(t *testing.T, platform *framework.Platform) {
	t.Helper()
	admin := framework.Admin(t, platform.Path)
	before := versions(t, admin)
	var steps []string
	must.Do(t, workspaces.Bootstrap(t.Context(), framework.AdminConfig(t), workspaces.Options{
		Workspace: platform.Path,
		Progress:  func(step string) { steps = append(steps, step) },
	}))
	if len(steps) == 0 || !strings.Contains(steps[0], platform.Path) {
		t.Errorf("steps reported: %q; want the first to name %s", steps, platform.Path)
	}
	if after := versions(t, admin); !slices.Equal(before, after) {
		t.Errorf("the second bootstrap has changed something:\nbefore %v\nafter  %v", before, after)
	}
}

// withClaimField returns the schemas and the export, with one more field in a claim's spec.
func withClaimField(t *testing.T, field string) (fs.FS, []byte) {
	t.Helper()
	folder, export := fstest.MapFS{}, config.APIExport()
	files := must.Get(fs.Glob(config.Schemas(), "*.yaml"))(t)
	for _, file := range files {
		data := must.Get(fs.ReadFile(config.Schemas(), file))(t)
		schema := &apisv1alpha1.APIResourceSchema{}
		must.Do(t, yaml.UnmarshalStrict(data, schema))
		if schema.Spec.Names.Plural == "ipclaims" {
			former := schema.Name
			schema.Name = "v0.ipclaims." + ipamv1alpha1.GroupName
			addSpecField(t, &schema.Spec.Versions[0], field)
			export = bytes.ReplaceAll(export, []byte(former), []byte(schema.Name))
			data = must.Get(yaml.Marshal(schema))(t)
		}
		folder[file] = &fstest.MapFile{Data: data}
	}
	return folder, export
}

func addSpecField(t *testing.T, version *apisv1alpha1.APIResourceVersion, field string) {
	t.Helper()
	schema := must.Get(version.GetSchema())(t)
	spec := schema.Properties["spec"]
	spec.Properties[field] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	must.Do(t, version.SetSchema(schema))
}

// versions lists the objects that a bootstrap applies, with the version of each.
func versions(t *testing.T, c client.Client) []string {
	t.Helper()
	var found []string
	for _, list := range []client.ObjectList{
		&apiextensionsv1.CustomResourceDefinitionList{},
		&admissionregistrationv1.ValidatingAdmissionPolicyList{},
		&admissionregistrationv1.ValidatingAdmissionPolicyBindingList{},
		&apisv1alpha1.APIResourceSchemaList{},
		&rbacv1.ClusterRoleList{},
		&rbacv1.ClusterRoleBindingList{},
		&cachev1alpha1.CachedResourceList{},
		&apisv1alpha2.APIExportList{},
	} {
		must.Do(t, c.List(t.Context(), list))
		must.Do(t, meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			found = append(found, fmt.Sprintf("%T %s %d %s", object, object.GetName(), object.GetGeneration(), object.GetUID()))
			return nil
		}))
	}
	return found
}
