package feed

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kcpindex "github.com/kcp-dev/apimachinery/v2/pkg/cache"
	"github.com/kcp-dev/apimachinery/v2/third_party/informers"
	"github.com/kcp-dev/logicalcluster/v3"
	kcpcache "github.com/kcp-dev/multicluster-provider/pkg/cache"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// soon is how long the tests wait for an event. It covers a second list.
const soon = 20 * time.Second

// scene is a feed with one watch, and an endpoint. The endpoint's informer is real, and its server is in memory.
type scene struct {
	t      *testing.T
	feed   *Feed
	source *fcache.FakeControllerSource
	cache  *wildcard
	first  *listener
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, feed: &Feed{Reengage: func(name multicluster.ClusterName) { t.Errorf("workspace %s is engaged again", name) }}}
	s.source = fcache.NewFakeControllerSource()
	t.Cleanup(s.source.Shutdown)
	s.cache = &wildcard{SharedIndexInformer: informers.NewSharedIndexInformer(s.source, &ipamv1alpha1.IPClaim{}, 0,
		toolscache.Indexers{kcpindex.ClusterIndexName: kcpcache.ClusterIndexFunc})}
	go s.cache.RunWithContext(t.Context())
	s.first = s.watch()
	return s
}

// synced returns when the cache has listed all objects.
func (s *scene) synced() {
	s.t.Helper()
	if !toolscache.WaitForCacheSync(s.t.Context().Done(), s.cache.HasSynced) {
		s.t.Fatal("the cache has listed nothing")
	}
}

// watch begins a further watch.
func (s *scene) watch() *listener {
	s.t.Helper()
	l := &listener{t: s.t, seen: map[multicluster.ClusterName]*seen{}}
	must.Do(s.t, s.feed.Tenants(&ipamv1alpha1.IPClaim{}, l.handle).Start(s.t.Context(), nil))
	return l
}

// engage engages a workspace as the provider does, and returns what the first watch sees.
func (s *scene) engage(name string) *seen {
	s.t.Helper()
	w := s.first.renew(name)
	ctx, leave := context.WithCancel(s.t.Context())
	must.Do(s.t, s.feed.Engage(ctx, multicluster.ClusterName(name), &shown{cache: s.cache}))
	w.leave = leave
	return w
}

// shown is a workspace's cluster at the endpoint.
type shown struct {
	cluster.Cluster
	cache *wildcard
}

func (s *shown) Endpoint() (url string, shared kcpcache.WildcardCache) {
	return "https://endpoint", s.cache
}

// wildcard is a cache that has only claims, and counts its handlers.
type wildcard struct {
	kcpcache.WildcardCache
	toolscache.SharedIndexInformer
	handlers atomic.Int32
	broken   atomic.Bool // no further informer is given out
}

func (w *wildcard) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	if w.broken.Load() {
		return nil, errors.New("the cache is broken")
	}
	return counted{w.SharedIndexInformer, &w.handlers}, nil
}

// counted counts the handlers of an informer.
type counted struct {
	toolscache.SharedIndexInformer
	handlers *atomic.Int32
}

func (c counted) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	c.handlers.Add(1)
	return c.SharedIndexInformer.AddEventHandler(h)
}

// listener is what a watch calls.
type listener struct {
	t    *testing.T
	mu   sync.Mutex
	seen map[multicluster.ClusterName]*seen
}

// of returns what the watch sees of the present engagement of a workspace.
func (l *listener) of(name string) *seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.seen[multicluster.ClusterName(name)]
	if w == nil {
		w = &seen{t: l.t, events: make(chan seeing, 10000)}
		l.seen[multicluster.ClusterName(name)] = w
	}
	return w
}

// renew begins a new record, for the workspace's next engagement, and returns it.
func (l *listener) renew(name string) *seen {
	l.mu.Lock()
	delete(l.seen, multicluster.ClusterName(name))
	l.mu.Unlock()
	return l.of(name)
}

func (l *listener) handle(name multicluster.ClusterName, _ cluster.Cluster) handler.TypedEventHandler[client.Object, mcreconcile.Request] {
	w := l.of(string(name))
	return handler.TypedFuncs[client.Object, mcreconcile.Request]{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ queue) { w.events <- seeing{"+", e.Object} },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ queue) { w.events <- seeing{"~", e.ObjectNew} },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) {
			if e.DeleteStateUnknown {
				w.events <- seeing{"!", e.Object}
				return
			}
			w.events <- seeing{"-", e.Object}
		},
	}
}

// seen is what a watch has seen of a workspace since it was engaged.
type seen struct {
	t      *testing.T
	leave  context.CancelFunc
	events chan seeing
	last   client.Object
}

type seeing struct {
	what string // +, ~, - or, for an object that is missing from a list, !
	obj  client.Object
}

// next returns the next event, like "+x".
func (s *seen) next() string {
	s.t.Helper()
	select {
	case e := <-s.events:
		s.last = e.obj
		return e.what + e.obj.GetName()
	case <-time.After(soon):
		s.t.Fatal("nothing more is seen")
		return ""
	}
}

// sees expects these events, and that no other event has come by then.
func (s *seen) sees(want ...string) {
	s.t.Helper()
	for _, w := range want {
		if got := s.next(); got != w {
			s.t.Fatalf("seen is %s, want %s of %v", got, w, want)
		}
	}
	if n := len(s.events); n > 0 {
		s.t.Fatalf("beyond %v there is %s", want, s.next())
	}
}

// seesAll expects this many objects. Some may come twice.
func (s *seen) seesAll(want int) {
	s.t.Helper()
	for names := map[string]bool{}; len(names) < want; {
		names[s.next()] = true
	}
}

func claim(workspace, name string) *ipamv1alpha1.IPClaim {
	c := gen.Claim(name, gen.UID(types.UID(workspace+"/"+name)))
	c.Annotations = map[string]string{logicalcluster.AnnotationKey: workspace}
	return c
}

func labelled(c *ipamv1alpha1.IPClaim) *ipamv1alpha1.IPClaim {
	c.Labels = map[string]string{"seen": "last"}
	return c
}
