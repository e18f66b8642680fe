package controllers

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// How bindings are served is known while an endpoint is away, and all else is asked of
// it, each time until it answers.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Path)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(endpoint.Close)
	cfg := discovered(&rest.Config{Host: endpoint.URL + "/services/apiexport/p/e/clusters/*"})
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(cfg, httpClient)
	if err != nil {
		t.Fatal(err)
	}

	bindings := apisv1alpha1.SchemeGroupVersion.WithKind("APIBinding")
	mapping, err := mapper.RESTMapping(bindings.GroupKind(), bindings.Version)
	if err != nil {
		t.Fatal(err)
	}
	if mapping.Resource.Resource != "apibindings" || mapping.Scope.Name() != meta.RESTScopeNameRoot {
		t.Errorf("bindings are served as %s %s", mapping.Scope.Name(), mapping.Resource)
	}
	if len(asked) > 0 {
		t.Errorf("the endpoint was asked for %v", asked)
	}
	claims := ipamv1alpha1.GroupVersion.WithKind("IPClaim")
	if _, err := mapper.RESTMapping(claims.GroupKind(), claims.Version); err == nil {
		t.Error("claims are known, without an answer")
	}
	if want := "/services/apiexport/p/e/clusters/*/apis/" + ipamv1alpha1.GroupVersion.String(); !slices.Contains(asked, want) {
		t.Errorf("the endpoint was asked for %v; want %s", asked, want)
	}
}
