package live

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
)

// paths are what a server has, by path: an object, a Status, or a code to fail with.
// What it has not it answers with a 404 about nothing in particular.
type paths map[string]any

func (p paths) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, ok := p[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if code, fails := answer.(int); fails {
		http.Error(w, "no", code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if status, ok := answer.(metav1.Status); ok {
		w.WriteHeader(int(status.Code))
	}
	_ = json.NewEncoder(w).Encode(answer)
}

const (
	inAll      = "/clusters/*"
	inW        = "/clusters/w"
	poolInW    = inW + "/apis/ipam.miloapis.com/v1alpha1/ippools/p"
	configInW  = inW + "/api/v1/namespaces/default/configmaps/c"
	configsInW = inW + "/api/v1/configmaps"
	boundInW   = inW + "/apis/apis.kcp.io/v1alpha2/apibindings"
)

// endpoint is one of the export: it serves pools, and config maps by permission.
func endpoint() paths {
	get := metav1.Verbs{"get", "list"}
	return paths{
		inAll + "/apis/ipam.miloapis.com": metav1.APIGroup{
			Name: "ipam.miloapis.com", PreferredVersion: metav1.GroupVersionForDiscovery{Version: "v1alpha1"},
		},
		inAll + "/apis/ipam.miloapis.com/v1alpha1": metav1.APIResourceList{APIResources: []metav1.APIResource{
			{Name: "ippools", Kind: "IPPool", Verbs: get}, {Name: "ippools/status", Kind: "IPPool", Verbs: get},
			{Name: "ipclasses", Kind: "IPClass", Verbs: get},
		}},
		inAll + "/api/v1": metav1.APIResourceList{APIResources: []metav1.APIResource{
			{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: get},
			{Name: "secrets", Kind: "Secret", Namespaced: true, Verbs: metav1.Verbs{"create"}},
		}},
		boundInW: binding(func(*apisv1alpha2.APIBinding) {}),
	}
}

// binding is the list of w's one binding, which lets all config maps be seen.
func binding(change func(*apisv1alpha2.APIBinding)) apisv1alpha2.APIBindingList {
	claim := apisv1alpha2.ScopedPermissionClaim{
		PermissionClaim: apisv1alpha2.PermissionClaim{GroupResource: apisv1alpha2.GroupResource{Resource: "configmaps"}},
		Selector:        apisv1alpha2.PermissionClaimSelector{MatchAll: true},
	}
	b := apisv1alpha2.APIBinding{}
	b.Annotations = map[string]string{"kcp.io/cluster": "w"}
	b.Spec.PermissionClaims = []apisv1alpha2.AcceptablePermissionClaim{{ScopedPermissionClaim: claim, State: apisv1alpha2.ClaimAccepted}}
	b.Status.AppliedPermissionClaims = []apisv1alpha2.ScopedPermissionClaim{claim}
	change(&b)
	return apisv1alpha2.APIBindingList{Items: []apisv1alpha2.APIBinding{b}}
}

func no(resource, name string) metav1.Status {
	status := apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name).ErrStatus
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return status
}

func named(kind, name string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name}}
}

func configs(items ...any) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMapList", "items": append([]any{}, items...)}
}

func TestObject(t *testing.T) {
	pool := Ref{Kind: schema.GroupKind{Group: ipamv1alpha1.GroupName, Kind: "IPPool"}, Name: "p"}
	config := Ref{Kind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "default", Name: "c"}
	grants := func(change func(*apisv1alpha2.APIBinding)) paths {
		return paths{configInW: no("configmaps", "c"), configsInW: configs(named("ConfigMap", "d")), boundInW: binding(change)}
	}
	for _, tt := range []struct {
		name   string
		ref    Ref
		has    paths
		want   Verdict
		proven bool
		fails  bool
	}{
		{name: "is there", ref: pool, has: paths{poolInW: named("IPPool", "p")}, want: Alive},
		{name: "is gone", ref: pool, has: paths{poolInW: no("ippools", "p")}, want: Gone, proven: true},
		{name: "a 404 about nothing", ref: pool, want: Hidden},
		{name: "a 404 about another", ref: pool, has: paths{poolInW: no("ippools", "q")}, want: Hidden},
		{name: "may not be read", ref: pool, has: paths{poolInW: http.StatusForbidden}, want: Hidden},
		{name: "a server in trouble", ref: pool, has: paths{poolInW: http.StatusBadRequest}, fails: true},
		{name: "no binding here", ref: pool, has: paths{poolInW: no("ippools", "p"), boundInW: apisv1alpha2.APIBindingList{}}, want: Unknown},
		{
			name: "a binding that goes", ref: pool, want: Unknown,
			has: paths{poolInW: no("ippools", "p"), boundInW: binding(func(b *apisv1alpha2.APIBinding) {
				b.DeletionTimestamp = new(metav1.Now())
			})},
		},
		{name: "another shard", ref: pool, has: paths{poolInW: no("ippools", "p"), boundInW: http.StatusNotFound}, want: Unknown},
		{name: "a path for a name", ref: Ref{Kind: pool.Kind, Name: "../ippools/p"}, want: Hidden},
		{name: "a path for a group", ref: Ref{Kind: schema.GroupKind{Group: "..", Kind: "IPPool"}, Name: "p"}, want: Hidden},
		{name: "a group nobody knows", ref: Ref{Kind: schema.GroupKind{Group: "example.com", Kind: "IPPool"}, Name: "p"}, want: Hidden},
		{name: "a class", ref: Ref{Kind: schema.GroupKind{Group: ipamv1alpha1.GroupName, Kind: "IPClass"}, Name: "p"}, want: Hidden},
		{name: "a namespace where there is none", ref: Ref{Kind: pool.Kind, Namespace: "default", Name: "p"}, want: Hidden},
		{name: "no namespace where there is one", ref: Ref{Kind: config.Kind, Name: "c"}, want: Hidden},
		{name: "a kind that may be created only", ref: Ref{Kind: schema.GroupKind{Kind: "Secret"}, Namespace: "default", Name: "c"}, want: Hidden},
		{name: "by permission, is there", ref: config, has: paths{configInW: named("ConfigMap", "c")}, want: Alive},
		{name: "by permission, is gone", ref: config, has: grants(func(*apisv1alpha2.APIBinding) {}), want: Gone, proven: true},
		{
			name: "by permission, nothing is shown", ref: config, want: Gone,
			has: paths{configInW: no("configmaps", "c"), configsInW: configs()},
		},
		{name: "by permission that was rejected", ref: config, want: Hidden, has: grants(func(b *apisv1alpha2.APIBinding) {
			b.Spec.PermissionClaims[0].State = apisv1alpha2.ClaimRejected
		})},
		{name: "by permission that is not applied", ref: config, want: Hidden, has: grants(func(b *apisv1alpha2.APIBinding) {
			b.Status.AppliedPermissionClaims = nil
		})},
		{name: "by permission for some", ref: config, want: Hidden, has: grants(func(b *apisv1alpha2.APIBinding) {
			b.Spec.PermissionClaims[0].Selector.MatchAll = false
		})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := endpoint()
			maps.Copy(server, tt.has)
			sight, err := (&Objects{Reader: readerOf(t, server)}).Object(t.Context(), "w", tt.ref)
			if (err != nil) != tt.fails || sight.Verdict != tt.want || sight.Proven != tt.proven {
				t.Errorf("verdict %d, proven %t, err %v; want %d, %t", sight.Verdict, sight.Proven, err, tt.want, tt.proven)
			}
			if (sight.Object != nil) != (tt.want == Alive) {
				t.Errorf("object %v with verdict %d", sight.Object, sight.Verdict)
			}
		})
	}
}

// readerOf is a reader whose export has these endpoints.
func readerOf(t *testing.T, handlers ...http.Handler) *Reader {
	t.Helper()
	var urls []string
	for _, handler := range handlers {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		urls = append(urls, server.URL)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apisv1alpha1.AddToScheme, apisv1alpha2.AddToScheme} {
		must.Do(t, add(scheme))
	}
	reader := must.Get(NewReader(Options{Config: &rest.Config{Host: urls[0]}, Slice: "s", Platform: "platform", Scheme: scheme}))(t)
	reader.endpoints.read = func(context.Context) (view, error) { return view{urls: urls}, nil }
	return reader
}

// A server in trouble says nothing of an object whose workspace is on another one.
func TestObject_AShardInTrouble(t *testing.T) {
	pool := Ref{Kind: schema.GroupKind{Group: ipamv1alpha1.GroupName, Kind: "IPPool"}, Name: "p"}
	trouble := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadRequest) })
	elsewhere := endpoint()
	elsewhere[boundInW] = http.StatusNotFound
	for _, tt := range []struct {
		name    string
		healthy paths
		pool    any
		want    Verdict
		fails   bool
	}{
		{name: "there", healthy: endpoint(), pool: named("IPPool", "p"), want: Alive},
		{name: "gone", healthy: endpoint(), pool: no("ippools", "p"), want: Gone},
		{name: "hidden", healthy: endpoint(), pool: http.StatusForbidden, want: Hidden},
		{name: "on none that answers", healthy: elsewhere, pool: no("ippools", "p"), fails: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.healthy[poolInW] = tt.pool
			for _, reader := range []*Reader{readerOf(t, trouble, tt.healthy), readerOf(t, tt.healthy, trouble)} {
				sight, err := (&Objects{Reader: reader}).Object(t.Context(), "w", pool)
				if (err != nil) != tt.fails || sight.Verdict != tt.want {
					t.Errorf("verdict %d, %v; want %d, an error: %t", sight.Verdict, err, tt.want, tt.fails)
				}
			}
		})
	}
}
