package workspaces

import (
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kcp-ipam/ipam/config"
	"github.com/kcp-ipam/ipam/test/must"
)

func TestRead(t *testing.T) {
	t.Parallel()
	folder := fstest.MapFS{
		"b.yaml":    {Data: []byte("kind: B\ncluster: ${CLUSTER}\n")},
		"a.yaml":    {Data: []byte("# a comment\n---\nkind: A1\n---\nkind: A2\n---\n")},
		"README.md": {Data: []byte("kind: none")},
	}
	objects := must.Get(read(folder, strings.NewReplacer("${CLUSTER}", "abc")))(t)
	var kinds []string
	for _, object := range objects {
		kinds = append(kinds, object.GetKind())
	}
	if got := strings.Join(kinds, " "); got != "A1 A2 B" {
		t.Fatalf("read %s; want A1 A2 B", got)
	}
	if got := objects[2].Object["cluster"]; got != "abc" {
		t.Errorf("the placeholder became %v; want abc", got)
	}
	if _, err := read(fstest.MapFS{}, strings.NewReplacer()); err == nil {
		t.Error("an empty folder was read without a word")
	}
}

func TestWithoutClasses(t *testing.T) {
	t.Parallel()
	exports := must.Get(decode(config.APIExport(), strings.NewReplacer()))(t)
	before, _, _ := unstructured.NestedSlice(exports[0].Object, "spec", "resources")
	must.Do(t, withoutClasses(exports[0]))
	after, _, _ := unstructured.NestedSlice(exports[0].Object, "spec", "resources")
	if len(after) != len(before)-1 {
		t.Errorf("%d resources of %d are left; want all but %s", len(after), len(before), classesResource)
	}
	for _, resource := range after {
		if resource.(map[string]any)["name"] == classesResource {
			t.Errorf("%s is still offered", classesResource)
		}
	}
}
