package chart

import (
	"path/filepath"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/kcp-ipam/ipam/test/must"
)

// complete sends the API server the overlay that brings its own etcd and certificates. The kinds of cert-manager are
// missing here.
func complete(t *testing.T, c client.Client) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
		Run(filesys.MakeFsOnDisk(), filepath.Join(root, "config", "deploy", "overlays", "ha-complete"))
	if err != nil {
		t.Fatal(err)
	}
	all := must.Get(objects(string(must.Get(built.AsYaml())(t))))(t)
	tried := 0
	for name, object := range all {
		if object["apiVersion"] == "cert-manager.io/v1" || object["kind"] == "Namespace" {
			continue
		}
		tried++
		if err := dryRun(t, c, object); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if tried < 10 {
		t.Errorf("the API server was shown %d objects of %d; want those of an etcd and of the controller", tried, len(all))
	}
}
