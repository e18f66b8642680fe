package wildcard

import (
	"slices"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	kcpcache "github.com/kcp-dev/multicluster-provider/pkg/cache"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
)

// still is a wildcard cache of what was added to one informer.
type still struct {
	kcpcache.WildcardCache
	informer toolscache.SharedIndexInformer
	kind     schema.GroupVersionKind
	scope    meta.RESTScopeName
}

func (s still) GetSharedInformer(runtime.Object) (toolscache.SharedIndexInformer, schema.GroupVersionKind, meta.RESTScopeName, error) {
	return namespaced{s.informer}, s.kind, s.scope, nil
}

// scoped returns the scoped cache of multicluster-provider for logical cluster "a". The cache behind it has these
// objects.
func scoped(t *testing.T, kind string, scope meta.RESTScopeName, objects ...client.Object) client.Reader {
	t.Helper()
	informer := newInformer(&toolscache.ListWatch{}, objects[0], 0)
	for _, object := range objects {
		must.Do(t, informer.GetIndexer().Add(object))
	}
	all := still{informer: informer, kind: ipamv1alpha1.GroupVersion.WithKind(kind), scope: scope}
	one := must.Get(kcpcache.NewScopedCluster(&rest.Config{Host: "https://kcp.invalid"}, "a", all, runtime.NewScheme(), nil))(t)
	return one.GetCache()
}

func in(cluster, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace, Annotations: map[string]string{logicalcluster.AnnotationKey: cluster}}
}

// lists expects a cache to list objects of these names, in order.
func lists(t *testing.T, cache client.Reader, list client.ObjectList, want []string, opts ...client.ListOption) {
	t.Helper()
	must.Do(t, cache.List(t.Context(), list, opts...))
	names := []string{}
	must.Do(t, meta.EachListItem(list, func(object runtime.Object) error {
		names = append(names, object.(client.Object).GetName())
		return nil
	}))
	if slices.Sort(names); !slices.Equal(names, want) {
		t.Errorf("List(%+v) found %v, want %v", opts, names, want)
	}
}

// A scoped cache gets and lists the objects of its workspace, and of a namespace in it, without an index by namespace.
func TestScoped_ListsANamespace(t *testing.T) {
	claim := func(meta metav1.ObjectMeta) client.Object { return &ipamv1alpha1.IPClaim{ObjectMeta: meta} }
	cache := scoped(t, "IPClaim", meta.RESTScopeNameNamespace,
		claim(in("a", "x", "one")), claim(in("a", "x", "two")), claim(in("a", "y", "three")), claim(in("b", "x", "four")))
	lists(t, cache, &ipamv1alpha1.IPClaimList{}, []string{"one", "three", "two"})
	for namespace, want := range map[client.InNamespace][]string{"x": {"one", "two"}, "y": {"three"}, "z": {}} {
		lists(t, cache, &ipamv1alpha1.IPClaimList{}, want, namespace)
	}
	got := &ipamv1alpha1.IPClaim{}
	if err := cache.Get(t.Context(), client.ObjectKey{Namespace: "y", Name: "three"}, got); err != nil || got.Name != "three" {
		t.Errorf("Get = %s, %v; want three", got.Name, err)
	}
	if err := cache.Get(t.Context(), client.ObjectKey{Namespace: "x", Name: "four"}, got); err == nil {
		t.Error("Get found a claim of another workspace")
	}
}

// Objects without a namespace are found by their workspace.
func TestScoped_ListsClusterScopedObjects(t *testing.T) {
	binding := func(meta metav1.ObjectMeta) client.Object { return &apisv1alpha2.APIBinding{ObjectMeta: meta} }
	cache := scoped(t, "APIBinding", meta.RESTScopeNameRoot, binding(in("a", "", "one")), binding(in("a", "", "two")), binding(in("b", "", "three")))
	lists(t, cache, &apisv1alpha2.APIBindingList{}, []string{"one", "two"})
	must.Do(t, cache.Get(t.Context(), client.ObjectKey{Name: "two"}, &apisv1alpha2.APIBinding{}))
}

// client-go keeps one set for each workspace that has objects of a kind, and no set for its namespaces.
func TestIndex_HasOneSetForEachWorkspace(t *testing.T) {
	informer := newInformer(&toolscache.ListWatch{}, &ipamv1alpha1.IPClaim{}, 0)
	for _, namespace := range []string{"x", "y"} {
		must.Do(t, informer.GetIndexer().Add(&ipamv1alpha1.IPClaim{ObjectMeta: in("a", namespace, "one")}))
	}
	values := 0
	for name := range informer.GetIndexer().GetIndexers() {
		values += len(informer.GetIndexer().ListIndexFuncValues(name))
	}
	if values != 1 {
		t.Errorf("the indexes have %d values for the objects of one workspace, want 1", values)
	}
}
