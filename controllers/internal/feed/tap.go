package feed

import (
	"sync"

	kcpindex "github.com/kcp-dev/apimachinery/v2/pkg/cache"
	"github.com/kcp-dev/logicalcluster/v3"
	kcpcache "github.com/kcp-dev/multicluster-provider/pkg/cache"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/controllers/internal/packed"
)

// tap is the one handler that a watch has on the cache of an endpoint. It calls the
// handler of the workspace that an object is of, if that is engaged. Safe for concurrent
// use.
type tap struct {
	watch *watch
	cache kcpcache.WildcardCache

	// mu is held while a handler is called, so that what is there and what happens take
	// turns. The cache knows of a change before the tap is told: what came too early to be
	// passed on is among what is there.
	mu       sync.Mutex
	informer toolscache.SharedIndexInformer // nil until a workspace is engaged
	open     map[multicluster.ClusterName]opened
}

// opened is a workspace whose handler is called.
type opened struct {
	*workspace
	handler handler.TypedEventHandler[client.Object, mcreconcile.Request]
}

// add has the workspace's handler called: for all that is there, then for what happens.
func (t *tap) add(w *workspace) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.ctx.Err() != nil {
		return nil
	}
	there := []any(nil)
	if t.informer != nil {
		var err error
		if there, err = t.informer.GetIndexer().ByIndex(kcpindex.ClusterIndexName, string(w.name)); err != nil {
			return err
		}
	} else if err := t.start(w); err != nil {
		return err
	}
	o := opened{w, t.watch.handle(w.name, w.cluster)}
	t.open[w.name] = o
	for _, obj := range there {
		o.handler.Create(w.ctx, event.CreateEvent{Object: packed.Whole(obj.(client.Object)), IsInInitialList: true}, t.watch.queue)
	}
	return nil
}

// start hangs the tap on the cache, which tells it of all that is there. It does not wait
// for that.
func (t *tap) start(w *workspace) error {
	informer, err := t.cache.GetInformer(w.ctx, t.watch.obj, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(t); err != nil {
		return err
	}
	t.informer = informer.(toolscache.SharedIndexInformer) // as the wildcard cache requires it, too
	t.open = map[multicluster.ClusterName]opened{}
	return nil
}

// remove ends the calls of the workspace's handler, unless it was engaged again.
func (t *tap) remove(w *workspace) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[w.name].workspace == w {
		delete(t.open, w.name)
	}
}

// OnAdd implements toolscache.ResourceEventHandler.
func (t *tap) OnAdd(obj any, initial bool) {
	t.call(obj, func(o opened) {
		o.handler.Create(o.ctx, event.CreateEvent{Object: packed.Whole(obj.(client.Object)), IsInInitialList: initial}, t.watch.queue)
	})
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (t *tap) OnUpdate(before, after any) {
	t.call(after, func(o opened) {
		o.handler.Update(o.ctx, event.UpdateEvent{ObjectOld: packed.Whole(before.(client.Object)), ObjectNew: packed.Whole(after.(client.Object))}, t.watch.queue)
	})
}

// OnDelete implements toolscache.ResourceEventHandler. The handler is given the object as
// last seen, whether it was seen to go or is missing from a list.
func (t *tap) OnDelete(obj any) {
	missing, unknown := obj.(toolscache.DeletedFinalStateUnknown)
	if unknown {
		obj = missing.Obj
	}
	t.call(obj, func(o opened) {
		o.handler.Delete(o.ctx, event.DeleteEvent{Object: packed.Whole(obj.(client.Object)), DeleteStateUnknown: unknown}, t.watch.queue)
	})
}

// call calls the handler of the workspace that the object is of.
func (t *tap) call(obj any, handle func(opened)) {
	name := multicluster.ClusterName(logicalcluster.From(obj.(client.Object)))
	t.mu.Lock()
	defer t.mu.Unlock()
	if o, ok := t.open[name]; ok && o.ctx.Err() == nil {
		handle(o)
	}
}
