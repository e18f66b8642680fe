package live

import (
	"maps"
	"net/http"
	"testing"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

const (
	inAll      = "/clusters/*"
	inW        = "/clusters/w"
	poolInW    = inW + "/apis/ipam.miloapis.com/v1alpha1/ippools/p"
	configInW  = inW + "/api/v1/namespaces/default/configmaps/c"
	configsInW = inW + "/api/v1/configmaps"
)

var boundInW = bindingsPath("w")

var thePool = Ref{Kind: schema.GroupKind{Group: ipamv1alpha1.GroupName, Kind: "IPPool"}, Name: "p"}

// newEndpoint is one of the export: it serves pools to w, and config maps by permission, and what a test adds or replaces.
func newEndpoint(t *testing.T, more paths) *site {
	t.Helper()
	get := metav1.Verbs{"get", "list"}
	s := newSite(t)
	s.objects = paths{
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
		boundInW: granting(func(*apisv1alpha2.APIBinding) {}),
	}
	maps.Copy(s.objects, more)
	return s
}

// granting is the list of w's one binding, which lets all config maps be seen.
func granting(change func(*apisv1alpha2.APIBinding)) *apisv1alpha2.APIBindingList {
	claim := apisv1alpha2.ScopedPermissionClaim{
		PermissionClaim: apisv1alpha2.PermissionClaim{GroupResource: apisv1alpha2.GroupResource{Resource: "configmaps"}},
		Selector:        apisv1alpha2.PermissionClaimSelector{MatchAll: true},
	}
	list := bindingList("9", "w")
	b := &list.Items[0]
	b.Spec.PermissionClaims = []apisv1alpha2.AcceptablePermissionClaim{{ScopedPermissionClaim: claim, State: apisv1alpha2.ClaimAccepted}}
	b.Status.AppliedPermissionClaims = []apisv1alpha2.ScopedPermissionClaim{claim}
	change(b)
	return list
}

func named(kind, name string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name}}
}

func configs(items ...any) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMapList", "items": append([]any{}, items...)}
}

func TestObject(t *testing.T) {
	pool, gone, noConfig := thePool, notFound("ippools", "p"), notFound("configmaps", "c")
	config := Ref{Kind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "default", Name: "c"}
	grants := func(change func(*apisv1alpha2.APIBinding)) paths {
		return paths{configInW: noConfig, configsInW: configs(named("ConfigMap", "d")), boundInW: granting(change)}
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
		{name: "is gone", ref: pool, has: paths{poolInW: gone}, want: Gone, proven: true},
		{name: "a 404 about nothing", ref: pool, want: Hidden},
		{name: "a 404 about another", ref: pool, has: paths{poolInW: notFound("ippools", "q")}, want: Hidden},
		{name: "may not be read", ref: pool, has: paths{poolInW: http.StatusForbidden}, want: Hidden},
		{name: "a server in trouble", ref: pool, has: paths{poolInW: http.StatusBadRequest}, fails: true},
		{name: "no binding here", ref: pool, has: paths{poolInW: gone, boundInW: bindingList("9")}, want: Unknown},
		{name: "a binding that goes", ref: pool, want: Unknown, has: paths{poolInW: gone, boundInW: granting(func(b *apisv1alpha2.APIBinding) {
			b.DeletionTimestamp = new(metav1.Now())
		})}},
		{name: "another shard", ref: pool, has: paths{poolInW: gone, boundInW: http.StatusNotFound}, want: Unknown},
		{name: "a path for a name", ref: Ref{Kind: pool.Kind, Name: "../ippools/p"}, want: Hidden},
		{name: "a path for a group", ref: Ref{Kind: schema.GroupKind{Group: "..", Kind: "IPPool"}, Name: "p"}, want: Hidden},
		{name: "a group nobody knows", ref: Ref{Kind: schema.GroupKind{Group: "example.com", Kind: "IPPool"}, Name: "p"}, want: Hidden},
		{name: "a class", ref: Ref{Kind: schema.GroupKind{Group: ipamv1alpha1.GroupName, Kind: "IPClass"}, Name: "p"}, want: Hidden},
		{name: "a namespace where there is none", ref: Ref{Kind: pool.Kind, Namespace: "default", Name: "p"}, want: Hidden},
		{name: "no namespace where there is one", ref: Ref{Kind: config.Kind, Name: "c"}, want: Hidden},
		{name: "a kind that may be created only", ref: Ref{Kind: schema.GroupKind{Kind: "Secret"}, Namespace: "default", Name: "c"}, want: Hidden},
		{name: "by permission, is there", ref: config, has: paths{configInW: named("ConfigMap", "c")}, want: Alive},
		{name: "by permission, is gone", ref: config, has: grants(func(*apisv1alpha2.APIBinding) {}), want: Gone, proven: true},
		{name: "by permission, nothing is shown", ref: config, want: Gone, has: paths{configInW: noConfig, configsInW: configs()}},
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
			_, reader := newWorld(t, newEndpoint(t, tt.has))
			sight, err := (&Objects{Reader: reader}).Object(t.Context(), "w", tt.ref)
			if (err != nil) != tt.fails || sight.Verdict != tt.want || sight.Proven != tt.proven {
				t.Errorf("verdict %d, proven %t, err %v; want %d, %t", sight.Verdict, sight.Proven, err, tt.want, tt.proven)
			}
			if (sight.Object != nil) != (tt.want == Alive) {
				t.Errorf("object %v with verdict %d", sight.Object, sight.Verdict)
			}
		})
	}
}

// A server in trouble says nothing of an object whose workspace is on another one.
func TestObject_AShardInTrouble(t *testing.T) {
	trouble := newSite(t)
	trouble.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadRequest) })
	for name, tt := range map[string]struct {
		healthy paths
		want    Verdict
		fails   bool
	}{
		"there":  {healthy: paths{poolInW: named("IPPool", "p")}, want: Alive},
		"gone":   {healthy: paths{poolInW: notFound("ippools", "p")}, want: Gone},
		"hidden": {healthy: paths{poolInW: http.StatusForbidden}, want: Hidden},
		"on none that answers": {
			healthy: paths{poolInW: notFound("ippools", "p"), boundInW: http.StatusNotFound}, fails: true,
		},
	} {
		healthy := newEndpoint(t, tt.healthy)
		for _, sites := range [][]*site{{trouble, healthy}, {healthy, trouble}} {
			_, reader := newWorld(t, sites...)
			sight, err := (&Objects{Reader: reader}).Object(t.Context(), "w", thePool)
			if (err != nil) != tt.fails || sight.Verdict != tt.want {
				t.Errorf("%s: verdict %d, %v; want %d, an error: %t", name, sight.Verdict, err, tt.want, tt.fails)
			}
		}
	}
}
