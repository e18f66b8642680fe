package source

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// pool returns the JSON of a pool with a number of leading blocks.
func pool(name string, leading int64) string {
	return fmt.Sprintf(`{"apiVersion":"ipam.miloapis.com/v1alpha1","kind":"IPPool","metadata":{"name":%q,"uid":%q,"resourceVersion":"5"},
"spec":{"cidr":"10.0.0.0/24","reservations":{"leading":%d}}}`, name, "uid-"+name, leading)
}

const tooMany = 1 << 31

// server sends lists and watches of pools.
type server struct {
	*testing.T
	lists   bool        // sends lists, but no watch that begins with a list
	stalls  atomic.Bool // answers nothing
	objects []string    // objects that are listed
	events  chan string // events that a watch sends
	url     string
}

func newServer(t *testing.T, lists bool, objects ...string) *server {
	s := &server{T: t, lists: lists, objects: objects, events: make(chan string)}
	listener := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(listener.Close)
	s.url = listener.URL
	return s
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	query := r.URL.Query()
	initial := query.Get("sendInitialEvents") == "true"
	switch {
	case s.stalls.Load():
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	case query.Get("watch") == "":
		fmt.Fprintf(w, `{"apiVersion":"ipam.miloapis.com/v1alpha1","kind":"IPPoolList","metadata":{"resourceVersion":"5"},"items":[%s]}`,
			strings.Join(s.objects, ","))
		return
	case initial && s.lists:
		http.Error(w, "list first", http.StatusUnprocessableEntity)
		return
	case initial:
		for _, object := range s.objects {
			fmt.Fprintf(w, `{"type":"ADDED","object":%s}`, object)
		}
		fmt.Fprint(w, `{"type":"BOOKMARK","object":{"kind":"IPPool","metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
	}
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case event := <-s.events:
			fmt.Fprint(w, event)
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// inform returns an informer that is filled from the server.
func (s *server) inform() toolscache.SharedIndexInformer {
	s.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(ipamv1alpha1.GroupVersion.WithKind("IPPool"), meta.RESTScopeRoot)
	from := Of(&rest.Config{Host: s.url}, cache.Options{Scheme: testbed.Scheme(s), Mapper: mapper, HTTPClient: http.DefaultClient}, &ipamv1alpha1.IPPool{})
	informer := Guarded(toolscache.NewSharedIndexInformer(from, &ipamv1alpha1.IPPool{}, 0, toolscache.Indexers{}))
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		informer.RunWithContext(ctx)
	}()
	s.Cleanup(func() { cancel(); <-ended })
	return informer
}

func (s *server) eventually(what string, ok func() bool) {
	s.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			s.Fatalf("waited in vain for %s", what)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-s.Context().Done():
			s.Fatal(s.Context().Err())
		}
	}
}

// value returns the value of a metric for IPPools.
func value(t *testing.T, of prometheus.Collector) float64 {
	t.Helper()
	metrics := make(chan prometheus.Metric, 10)
	of.Collect(metrics)
	close(metrics)
	for metric := range metrics {
		got := &dto.Metric{}
		must.Do(t, metric.Write(got))
		if got.GetLabel()[0].GetValue() == "IPPool" {
			return got.GetGauge().GetValue()
		}
	}
	return 0
}

// An object that cannot be read spoils no other object of a cache, whether it is listed or watched. It is in the cache,
// marked, and readers get an error instead.
func TestOf_HidesAnUnreadableObjectFromReaders(t *testing.T) {
	for name, lists := range map[string]bool{"listed": true, "watched": false} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, lists, pool("a", 1), pool("odd", tooMany), pool("b", 2))
			informer := s.inform()
			store := informer.GetIndexer()
			s.eventually("the cache to be filled", informer.HasSynced)
			s.eventually("the list to be no more overdue", func() bool { return value(t, overdue) == 0 })
			if got := store.ListKeys(); !slices.Equal(sorted(got), []string{"a", "b", "odd"}) {
				t.Errorf("the cache has %v, want a, b and odd", got)
			}
			if _, _, err := store.GetByKey("odd"); err == nil || !strings.Contains(err.Error(), "leading") {
				t.Errorf("GetByKey of the odd one = %v, want an error that names the field", err)
			}
			if _, ok, err := store.GetByKey("a"); !ok || err != nil {
				t.Errorf("GetByKey of another = %t, %v", ok, err)
			}
			if got := value(t, unreadable); got != 1 {
				t.Errorf("the metric counts %v objects, want 1", got)
			}
			s.events <- `{"type":"MODIFIED","object":` + pool("a", tooMany) + `}`
			s.eventually("the change to be seen", func() bool { return value(t, unreadable) == 2 })
			s.events <- `{"type":"MODIFIED","object":` + pool("odd", 3) + `}` + `{"type":"DELETED","object":` + pool("a", tooMany) + `}`
			s.eventually("all to be readable", func() bool {
				_, ok, err := store.GetByKey("odd")
				return ok && err == nil && value(t, unreadable) == 0 && len(store.ListKeys()) == 2
			})
		})
	}
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}

// A metric shows that a list is overdue, even if nothing has failed.
func TestOf_CountsAnOverdueList(t *testing.T) {
	s := newServer(t, false, pool("a", 1))
	s.stalls.Store(true)
	informer := s.inform()
	s.eventually("the list to be overdue", func() bool { return value(t, overdue) > 0.1 })
	if informer.HasSynced() {
		t.Error("the cache is filled by a server that sends nothing")
	}
}

// When a cache ends, the metrics do not count its objects any more.
func TestOf_CountsNothingAfterTheCacheEnds(t *testing.T) {
	t.Run("a cache that ends", func(t *testing.T) {
		s := newServer(t, true, pool("odd", tooMany))
		s.inform()
		s.eventually("the object to be counted", func() bool { return value(t, unreadable) == 1 })
	})
	(&server{T: t}).eventually("nothing to be counted", func() bool { return value(t, unreadable) == 0 })
}
