package e2e

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// An object that is applied again unchanged stays as it is. But kcp (v0.31.2) stores each object without the
// annotation of its logical cluster, and adds it when the object is next updated or applied. The kind "Thing" shows
// this write of kcp: it has no schema, no webhook and no controller of this project. Our kinds are written no more
// often.
func TestApply_WritesNothingWhenRepeated(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.DefaultLength(28))
	s.pool(s.cidr)
	admin := framework.Admin(t, s.tenant.Path)
	byKCP := appliedAgain(t, admin, newThing(t, admin), func() {})
	if byKCP > 1 {
		t.Errorf("kcp wrote an object of a plain CRD %d times; want once at most", byKCP)
	}
	t.Logf("kcp wrote the object of a plain CRD %d times", byKCP)
	claim, pool, class := gen.Claim("applied", gen.OfClass(s.name)), gen.Pool("applied", gen.CIDR("192.0.2.0/24")), gen.Class(s.name+"-applied")
	for _, row := range []struct {
		kind    string
		c       client.WithWatch
		object  *unstructured.Unstructured
		settles func()
	}{
		{"IPClaim", s.tenant, must.Get(manifest("IPClaim", claim))(t), func() { framework.WaitBound(t, s.tenant, claim) }},
		{"IPPool", s.tenant, must.Get(manifest("IPPool", pool))(t), func() {
			framework.WaitCondition(t, s.tenant, pool, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonUnused)
		}},
		{"IPClass", s.platform, must.Get(manifest("IPClass", class))(t), func() {
			framework.WaitCondition(t, s.platform, class, ipamv1alpha1.ConditionReady, ipamv1alpha1.ReasonValidated)
			framework.WaitWhile(t, s.platform, class, "it has no label of published classes", func(class *ipamv1alpha1.IPClass) bool {
				return class.Labels[ipamv1alpha1.LabelPublished] == ""
			})
		}},
	} {
		if writes := appliedAgain(t, row.c, row.object, row.settles); writes > byKCP {
			t.Errorf("applying an %s three times more wrote it %d times; want %d, as an object of a plain CRD", row.kind, writes, byKCP)
		}
	}
}

// On a Kubernetes, applying a claim again unchanged writes nothing.
func standaloneApply(t *testing.T, cluster *framework.Platform) {
	name := framework.Name(t)
	offer(t, cluster, name, cluster.CIDR(t), gen.DefaultLength(28))
	claim := gen.Claim("applied", gen.OfClass(name))
	writes := appliedAgain(t, cluster, must.Get(manifest("IPClaim", claim))(t), func() { framework.WaitBound(t, cluster, claim) })
	if writes > 0 {
		t.Errorf("applying a claim three times more wrote it %d times; want never", writes)
	}
}

// newThing creates a CRD in a workspace, and returns an object of its kind once a server serves it.
func newThing(t *testing.T, c client.WithWatch) *unstructured.Unstructured {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name = "things.example.com"
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.ClusterScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "string"}},
			}},
		}},
	}
	framework.Create(t, c, crd)
	thing := &unstructured.Unstructured{Object: map[string]any{"spec": "plain"}}
	thing.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"})
	thing.SetName("applied")
	framework.Eventually(t, "the kind Thing to be served", func(ctx context.Context) error {
		things := &unstructured.UnstructuredList{}
		things.SetGroupVersionKind(thing.GroupVersionKind())
		return c.List(ctx, things)
	})
	return thing
}

// apply creates a claim by server-side apply.
func apply(ctx context.Context, c client.Writer, claim *ipamv1alpha1.IPClaim) error {
	object, err := manifest("IPClaim", claim)
	if err != nil {
		return err
	}
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("e2e")); err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, claim)
}

// manifest returns the manifest of an object of this API as a user writes it, with name and spec.
func manifest(kind string, object client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	applied := &unstructured.Unstructured{Object: map[string]any{"spec": content["spec"]}}
	applied.SetGroupVersionKind(ipamv1alpha1.GroupVersion.WithKind(kind))
	applied.SetNamespace(object.GetNamespace())
	applied.SetName(object.GetName())
	return applied, nil
}

// appliedAgain applies a new object, waits until it is settled, and applies it three more times unchanged. It returns
// how many of these three wrote it.
func appliedAgain(t *testing.T, c client.WithWatch, object *unstructured.Unstructured, settle func()) (writes int) {
	t.Helper()
	applied := func() *unstructured.Unstructured {
		answer := object.DeepCopy()
		must.Do(t, c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(answer), client.FieldOwner("e2e")))
		return answer
	}
	applied()
	settle()
	was := object.DeepCopy()
	framework.Read(t, c, was)
	for range 3 {
		is := applied()
		if is.GetResourceVersion() != was.GetResourceVersion() {
			writes++
			was.SetResourceVersion(is.GetResourceVersion())
		}
		if diff := cmp.Diff(was.Object, is.Object); diff != "" {
			t.Errorf("an object changed when it was applied as it is (-was +is):\n%s", diff)
		}
	}
	return writes
}
