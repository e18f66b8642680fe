package tenants

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// soon is how long the tests wait for an event. It covers a few attempts.
const soon = 30 * time.Second

// scene is a provider between a server and a manager that are in memory. The server is the platform, and two endpoints
// below /one and /two.
type scene struct {
	*testing.T
	*Provider
	server *httptest.Server
	end    func() // ends the provider, and waits

	mu      sync.Mutex
	lists   map[string]map[string]client.Object // the objects, by path and name
	broken  map[string]int                      // the HTTP status with which a path is answered
	history []happening                         // events, one for each version
	news    chan struct{}                       // closed at a change
	refused map[multicluster.ClusterName]bool   // workspaces that the manager refuses
	events  chan string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{
		T: t, lists: map[string]map[string]client.Object{}, broken: map[string]int{}, news: make(chan struct{}),
		refused: map[multicluster.ClusterName]bool{}, events: make(chan string, 1000),
	}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	s.Provider = must.Get(New(Options{
		Config: &rest.Config{Host: s.server.URL}, Slice: "e", Scheme: testbed.Scheme(t, apisv1alpha1.AddToScheme, apisv1alpha2.AddToScheme),
		Directory: directory.New(directory.Workspace{Cluster: "p", Path: "root:p"}), Logger: testr.New(t),
	}))(t)
	s.listed("one")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx, s) }()
	s.end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Start = %v", err)
		}
	})
	t.Cleanup(func() { s.end() })
	return s
}

// happening is what a watch of a path shows.
type happening struct {
	path  string
	Type  string `json:"type"`
	Thing any    `json:"object"`
}

const slicesPath = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"

func bindingsPath(endpoint string) string {
	return "/" + endpoint + "/clusters/*/apis/apis.kcp.io/v1alpha2/apibindings"
}

// listed makes the endpoint slice list these endpoints.
func (s *scene) listed(endpoints ...string) {
	slice := &apisv1alpha1.APIExportEndpointSlice{}
	slice.Name = "e"
	for _, endpoint := range endpoints {
		slice.Status.APIExportEndpoints = append(slice.Status.APIExportEndpoints,
			apisv1alpha1.APIExportEndpoint{URL: s.server.URL + "/" + endpoint})
	}
	s.put(slicesPath, "e", slice)
}

// binds makes an endpoint show a binding that serves a workspace.
func (s *scene) binds(endpoint, workspace string) {
	b := testbed.Binding(workspace, "")
	b.UID = types.UID(endpoint + "/" + workspace)
	s.put(bindingsPath(endpoint), workspace, b)
}

func (s *scene) put(path, name string, thing client.Object) {
	s.change(func() {
		what := "ADDED"
		if s.lists[path] == nil {
			s.lists[path] = map[string]client.Object{}
		} else if s.lists[path][name] != nil {
			what = "MODIFIED"
		}
		s.lists[path][name] = thing
		s.happens(path, what, thing)
	})
}

func (s *scene) drop(path, name string) {
	s.change(func() {
		thing := s.lists[path][name]
		delete(s.lists[path], name)
		s.happens(path, "DELETED", thing)
	})
}

// happens notes an event. The caller holds mu.
func (s *scene) happens(path, what string, thing client.Object) {
	thing.SetResourceVersion(strconv.Itoa(len(s.history) + 1))
	s.history = append(s.history, happening{path, what, stamped(path, thing)})
}

func (s *scene) breaks(path string) { s.answers(path, http.StatusServiceUnavailable) }

// answers makes the server answer a path with a status that names no object.
func (s *scene) answers(path string, status int) { s.change(func() { s.broken[path] = status }) }

func (s *scene) repairs(path string) { s.change(func() { delete(s.broken, path) }) }

func (s *scene) change(what func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what()
	close(s.news)
	s.news = make(chan struct{})
}

// ServeHTTP answers lists and watches, and reads of single claims and records.
func (s *scene) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	s.mu.Lock()
	items, broken, version := []any{}, s.broken[path], len(s.history)
	for _, thing := range s.lists[path] {
		items = append(items, stamped(path, thing))
	}
	s.mu.Unlock()
	switch query := r.URL.Query(); {
	case broken != 0:
		w.WriteHeader(broken)
	case strings.Contains(path, "/namespaces/"):
		s.one(w, path)
	case query.Get("sendInitialEvents") == "true":
		w.WriteHeader(http.StatusUnprocessableEntity) // list first
	case query.Get("watch") == "true":
		s.show(w, r, query.Get("resourceVersion"))
	default:
		w.Header().Set("Content-Type", "application/json")
		list := of(path, "List")
		list["metadata"], list["items"] = metav1.ListMeta{ResourceVersion: strconv.Itoa(version)}, items
		_ = json.NewEncoder(w).Encode(list)
	}
}

// one answers a read of one object.
func (s *scene) one(w http.ResponseWriter, path string) {
	end := strings.LastIndex(path, "/")
	list, name := path[:end], path[end+1:]
	s.mu.Lock()
	thing := s.lists[list][name]
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if thing != nil {
		_ = json.NewEncoder(w).Encode(stamped(list, thing))
		return
	}
	w.WriteHeader(http.StatusNotFound)
	kind := schema.GroupResource{Group: ipamv1alpha1.GroupName, Resource: list[strings.LastIndex(list, "/")+1:]}
	status := apierrors.NewNotFound(kind, name).Status()
	status.Kind, status.APIVersion = "Status", "v1"
	_ = json.NewEncoder(w).Encode(status)
}

// show answers a watch until its client ends it.
func (s *scene) show(w http.ResponseWriter, r *http.Request, since string) {
	seen, _ := strconv.Atoi(since)
	w.Header().Set("Content-Type", "application/json")
	for r.Context().Err() == nil {
		_ = http.NewResponseController(w).Flush()
		s.mu.Lock()
		more, news := s.history[seen:], s.news
		s.mu.Unlock()
		for _, event := range more {
			if event.path == r.URL.Path {
				_ = json.NewEncoder(w).Encode(event)
			}
		}
		if seen += len(more); len(more) > 0 {
			continue
		}
		select {
		case <-news:
		case <-r.Context().Done():
		}
	}
}

// Engage implements multicluster.Aware, for the manager.
func (s *scene) Engage(ctx context.Context, name multicluster.ClusterName, _ cluster.Cluster) error {
	s.mu.Lock()
	refused := s.refused[name]
	s.mu.Unlock()
	if refused {
		s.events <- "?" + name.String()
		return errors.New("no")
	}
	s.events <- "+" + name.String()
	context.AfterFunc(ctx, func() { s.events <- "-" + name.String() })
	return nil
}

// sees expects these events, in any order: + for engaged, - for disengaged, ? for refused.
func (s *scene) sees(want ...string) {
	s.Helper()
	var got []string
	for range want {
		select {
		case event := <-s.events:
			got = append(got, event)
		case <-time.After(soon):
			s.Fatalf("seen is %v, want %v", got, want)
		}
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		s.Fatalf("seen is %v, want %v", got, want)
	}
}

// kinds has the kind of each resource.
var kinds = map[string]string{
	"apiexportendpointslices": "APIExportEndpointSlice", "apibindings": "APIBinding",
	"ippools": "IPPool", "ipclaims": "IPClaim", "ipallocations": "IPAllocation",
}

// of returns the beginning of the answer to a request for this path.
func of(path, suffix string) map[string]any {
	_, path, _ = strings.Cut(path, "/apis/")
	parts := strings.Split(path, "/")
	return map[string]any{"apiVersion": parts[0] + "/" + parts[1], "kind": kinds[parts[len(parts)-1]] + suffix}
}

// stamped returns an object with its kind, as it is now.
func stamped(path string, thing client.Object) map[string]any {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(thing)
	if err != nil {
		panic(err)
	}
	maps.Copy(content, of(path, ""))
	return content
}
