package live

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// paths are the answers of a server, by path: an object, a Status, or a code to fail with.
type paths map[string]any

// site is a server: the platform's, or an endpoint of the export. It answers a path with the object that is there. For
// any other path it answers a 404 that names nothing, like a server that does not serve the workspace.
type site struct {
	*httptest.Server
	mu      sync.Mutex
	objects paths
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{objects: paths{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if page := r.URL.Query().Get("continue"); page != "" {
		path += "?" + page
	}
	if query := r.URL.Query(); query.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact) {
		path += "@" + query.Get("resourceVersion") + "?" + query.Get("fieldSelector")
	}
	s.mu.Lock()
	object := s.objects[path]
	s.mu.Unlock()
	if code, fails := object.(int); fails {
		http.Error(w, "no", code)
		return
	}
	if object == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if status, ok := object.(*metav1.Status); ok {
		w.WriteHeader(int(status.Code))
	}
	_ = json.NewEncoder(w).Encode(object) // a client that has gone away needs no answer
}

// serve makes the site answer a path with an object from now on.
func (s *site) serve(path string, object any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[path] = object
}

// The paths of the claim default/c of the workspace w, of the endpoint slice, and of the pools.
const (
	claimPath = "/clusters/w/apis/ipam.miloapis.com/v1alpha1/namespaces/default/ipclaims/c"
	slicePath = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/ipam.miloapis.com"
	poolsPath = "/apis/ipam.miloapis.com/v1alpha1/ippools"
)

func bindingsPath(cluster string) string {
	return "/clusters/" + cluster + "/apis/apis.kcp.io/v1alpha2/apibindings"
}

// bind makes the site serve these workspaces and no others, at a revision.
func (s *site) bind(revision string, clusters ...string) {
	s.mu.Lock()
	maps.DeleteFunc(s.objects, func(path string, _ any) bool { return path != claimPath })
	s.mu.Unlock()
	s.serve(bindingsPath("*"), bindingList(revision, clusters...))
	for _, cluster := range clusters {
		s.serve(bindingsPath(cluster), bindingList(revision, cluster))
	}
}

func bindingList(revision string, clusters ...string) *apisv1alpha2.APIBindingList {
	list := &apisv1alpha2.APIBindingList{
		TypeMeta: metav1.TypeMeta{APIVersion: "apis.kcp.io/v1alpha2", Kind: "APIBindingList"},
		ListMeta: metav1.ListMeta{ResourceVersion: revision},
	}
	for _, cluster := range clusters {
		list.Items = append(list.Items, bindingSince(cluster, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)))
	}
	return list
}

// bindingSince returns a binding that kcp bound at a time. The zero time: kcp has not bound it yet.
func bindingSince(cluster string, bound time.Time) apisv1alpha2.APIBinding {
	b := apisv1alpha2.APIBinding{ObjectMeta: metav1.ObjectMeta{Name: "ipam", Annotations: map[string]string{"kcp.io/cluster": cluster}}}
	done := conditionsv1alpha1.Condition{Type: apisv1alpha2.InitialBindingCompleted, Status: corev1.ConditionFalse}
	if !bound.IsZero() {
		done.Status, done.LastTransitionTime = corev1.ConditionTrue, metav1.NewTime(bound)
	}
	b.Status.Conditions = conditionsv1alpha1.Conditions{done}
	return b
}

// holds makes the site answer that the workspace has a claim of the name c, with this UID.
func (s *site) holds(uid types.UID) {
	claim := gen.Claim("c")
	claim.UID = uid
	s.serve(claimPath, claim)
}

// lacks makes the site answer that it serves the workspace, and the claim is not there.
func (s *site) lacks() { s.serve(claimPath, notFound("ipclaims", "c")) }

func notFound(resource, name string) *metav1.Status {
	status := apierrors.NewNotFound(ipamv1alpha1.GroupVersion.WithResource(resource).GroupResource(), name).ErrStatus
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return &status
}

func forbidden(resource, name string) *metav1.Status {
	status := notFound(resource, name)
	status.Code, status.Reason = http.StatusForbidden, metav1.StatusReasonForbidden
	return status
}

// newWorld makes a platform whose export has these endpoints, and a reader of it.
func newWorld(t *testing.T, endpoints ...*site) (*site, *Reader) {
	t.Helper()
	platform := newSite(t)
	platform.serve(slicePath, slice(corev1.ConditionTrue, endpoints...))
	reader := must.Get(NewReader(Options{
		Config: &rest.Config{Host: platform.URL}, Slice: ipamv1alpha1.GroupName, Platform: "platform", Path: "root:ipam", Scheme: scheme(t),
	}))(t)
	return platform, reader
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	return testbed.Scheme(t, apisv1alpha1.AddToScheme, apisv1alpha2.AddToScheme)
}

func slice(valid corev1.ConditionStatus, endpoints ...*site) *apisv1alpha1.APIExportEndpointSlice {
	s := &apisv1alpha1.APIExportEndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "apis.kcp.io/v1alpha1", Kind: "APIExportEndpointSlice"},
	}
	s.Name = ipamv1alpha1.GroupName
	s.Spec.APIExport.Name = ipamv1alpha1.GroupName
	s.Status.Conditions = conditionsv1alpha1.Conditions{
		{Type: apisv1alpha1.APIExportValid, Status: valid},
		{Type: apisv1alpha1.PartitionValid, Status: corev1.ConditionTrue},
	}
	for _, endpoint := range endpoints {
		s.Status.APIExportEndpoints = append(s.Status.APIExportEndpoints, apisv1alpha1.APIExportEndpoint{URL: endpoint.URL})
	}
	return s
}

// theClaim holds the block in question.
var theClaim = ledger.Holder{Claim: "uid-of-c", Cluster: "w", Namespace: "default", Name: "c"}

// ignore visits an object, and does nothing.
func ignore(ledger.ClusterName, client.Object) {}

// asks asks the reader about the claim, and fails the test unless the verdict is the wanted one.
func asks(t *testing.T, reader *Reader, want Verdict) Answer {
	t.Helper()
	answer, err := reader.Holder(t.Context(), theClaim)
	if err != nil || answer.Verdict != want {
		t.Errorf("verdict = %d, %v; want %d", answer.Verdict, err, want)
	}
	return answer
}
