package config

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"testing"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	cachev1alpha1 "github.com/kcp-dev/sdk/apis/cache/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/yaml"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
)

// strict refuses fields that no type knows, and duplicate ones.
var strict = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(
		apisv1alpha1.AddToScheme, apisv1alpha2.AddToScheme, cachev1alpha1.AddToScheme,
		admissionregistrationv1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme,
		apiextensionsv1.AddToScheme, ipamv1alpha1.AddToScheme,
	)
	if err := builder.AddToScheme(scheme); err != nil {
		panic(err)
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}()

// decode returns the objects of a manifest.
func decode(t *testing.T, manifest []byte) []runtime.Object {
	t.Helper()
	var objects []runtime.Object
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := strict.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		objects = append(objects, object)
	}
}

// load returns the objects of every file of a tree.
func load(t *testing.T, tree fs.FS) []runtime.Object {
	t.Helper()
	var objects []runtime.Object
	must.Do(t, fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		manifest, err := fs.ReadFile(tree, path)
		objects = append(objects, decode(t, manifest)...)
		return err
	}))
	return objects
}

// loadAs returns the objects of a tree that are of one type.
func loadAs[T runtime.Object](t *testing.T, tree fs.FS) []T {
	t.Helper()
	var typed []T
	for _, object := range load(t, tree) {
		if of, ok := object.(T); ok {
			typed = append(typed, of)
		}
	}
	if len(typed) == 0 {
		t.Fatal("no such object in the tree")
	}
	return typed
}

func TestManifests_DecodeStrictly(t *testing.T) {
	if objects := load(t, files); len(objects) < 30 {
		t.Errorf("only %d objects are embedded", len(objects))
	}
}

func TestAPIExport_OffersEverySchema(t *testing.T) {
	export := decode(t, APIExport())[0].(*apisv1alpha2.APIExport)
	offered := sets.New[string]()
	for _, resource := range export.Spec.Resources {
		offered.Insert(resource.Schema)
		if isVirtual := resource.Storage.Virtual != nil; isVirtual != (resource.Name == "ipclasses") {
			t.Errorf("%s: virtual storage is %t", resource.Name, isVirtual)
		}
	}
	schemas := sets.New[string]()
	for _, schema := range loadAs[*apisv1alpha1.APIResourceSchema](t, Schemas()) {
		schemas.Insert(schema.Name)
	}
	if !offered.Equal(schemas) {
		t.Errorf("the export offers %v, there are %v", sets.List(offered), sets.List(schemas))
	}
	if policy := export.Spec.MaximalPermissionPolicy; policy == nil || policy.Local == nil {
		t.Error("the export has no maximal permission policy")
	}
}

func TestPlaceholders_StandWhereTheyAreReplaced(t *testing.T) {
	if !bytes.Contains(APIExport(), []byte(ClassesIdentity)) {
		t.Errorf("%s is not in the APIExport", ClassesIdentity)
	}
	must.Do(t, fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		manifest, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		isPolicy, _ := fs.Glob(Policies(), entry.Name())
		if bytes.Contains(manifest, []byte(PlatformCluster)) && len(isPolicy) == 0 {
			t.Errorf("%s is in %s, which is not a policy", PlatformCluster, path)
		}
		return nil
	}))
}

func TestCachedResource_PublishesLabelledClasses(t *testing.T) {
	cached := decode(t, CachedResource())[0].(*cachev1alpha1.CachedResource)
	selected := cached.Spec.LabelSelector.MatchLabels
	if len(selected) != 1 || selected[ipamv1alpha1.LabelPublished] != "true" {
		t.Errorf("it publishes the label %v", selected)
	}
}
