package feed

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"
	mchandler "sigs.k8s.io/multicluster-runtime/pkg/handler"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
)

type (
	// Handler makes the handler of a workspace. It is called for each event, so a handler can remember nothing. Events
	// have the objects as the caches keep them. Such objects may be packed, see package packed, and must not be changed.
	Handler = mchandler.TypedEventHandlerFunc[client.Object, mcreconcile.Request]
	// EventHandler handles events of a workspace.
	EventHandler = handler.TypedEventHandler[client.Object, mcreconcile.Request]
	// Funcs are an EventHandler.
	Funcs = handler.TypedFuncs[client.Object, mcreconcile.Request]
	queue = workqueue.TypedRateLimitingInterface[mcreconcile.Request]
)

// Platform returns a source of events: of those of all objects of a kind on the platform.
func Platform(local cluster.Cluster, obj client.Object, handle Handler) source.TypedSource[mcreconcile.Request] {
	return source.TypedKind[client.Object](local.GetCache(), obj, platform{handle(mcmanager.LocalCluster, local)})
}

// Tenants returns a source of events: of those of all objects of a kind in the engaged workspaces.
func (f *Feed) Tenants(obj client.Object, handle Handler) source.TypedSource[mcreconcile.Request] {
	return source.TypedFunc[mcreconcile.Request](func(ctx context.Context, q queue) error {
		w := &watch{obj: obj, handle: handle, queue: q, taps: map[string]*tap{}}
		for _, workspace := range f.add(w) {
			if err := w.open(workspace); err != nil {
				// The fault must not stop the controller, which serves all other workspaces.
				log.FromContext(ctx).Error(err, "the workspace is engaged again", "cluster", workspace.name)
				f.Reengage(workspace.name)
			}
		}
		return nil
	})
}

// watch is a controller's interest in a kind. Safe for concurrent use.
type watch struct {
	obj    client.Object
	handle Handler
	queue  queue

	mu   sync.Mutex
	taps map[string]*tap // by the endpoint's URL
}

// open makes the tap of an endpoint call a workspace's handler from now on. If an endpoint was closed and opened again,
// it has a new cache, and the tap on the old cache gets no events any more.
func (w *watch) open(of *workspace) error {
	w.mu.Lock()
	t := w.taps[of.endpoint]
	if t == nil || t.cache != of.cache {
		t = &tap{watch: w, cache: of.cache}
		w.taps[of.endpoint] = t
	}
	w.mu.Unlock()
	return t.add(of)
}

// close ends the calls of a workspace's handler.
func (w *watch) close(of *workspace) {
	w.mu.Lock()
	t := w.taps[of.endpoint]
	w.mu.Unlock()
	if t != nil {
		t.remove(of)
	}
}

// platform passes on the events of the platform. An update that replaces an object by another one of the same name
// becomes two events, as in a tap.
type platform struct {
	EventHandler
}

// Update implements handler.TypedEventHandler.
func (p platform) Update(ctx context.Context, e event.UpdateEvent, q queue) {
	if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
		p.Delete(ctx, event.DeleteEvent{Object: e.ObjectOld, DeleteStateUnknown: true}, q)
		p.Create(ctx, event.CreateEvent{Object: e.ObjectNew}, q)
		return
	}
	p.EventHandler.Update(ctx, e, q)
}
