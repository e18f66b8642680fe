package feed

import (
	"context"
	"sync"

	kcpindex "github.com/kcp-dev/apimachinery/v2/pkg/cache"
	"github.com/kcp-dev/logicalcluster/v3"
	kcpcache "github.com/kcp-dev/multicluster-provider/pkg/cache"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// tap is the one handler that a watch has on the cache of an endpoint. It calls the handler of the workspace to which
// an object belongs, if that workspace is engaged. Safe for concurrent use.
type tap struct {
	watch *watch
	cache kcpcache.WildcardCache

	// mu is held while a handler is called, so that the objects of the cache and the later events come one after the
	// other. The cache has a change before the tap gets the event. So an event that comes before its workspace is engaged
	// is not lost: its change is among the objects of the cache.
	mu       sync.Mutex
	informer toolscache.SharedIndexInformer // nil until a workspace is engaged
	open     map[multicluster.ClusterName]*workspace
}

// add calls the workspace's handler from now on: first for all objects of the workspace in the cache, then for their
// events.
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
	t.open[w.name] = w
	for _, obj := range there {
		t.pass(w.name, func(ctx context.Context, to EventHandler) {
			to.Create(ctx, event.CreateEvent{Object: obj.(client.Object), IsInInitialList: true}, t.watch.queue)
		})
	}
	return nil
}

// start adds the tap to the cache as a handler. The cache then calls the tap for all objects. start does not wait for
// that.
func (t *tap) start(w *workspace) error {
	informer, err := t.cache.GetInformer(w.ctx, t.watch.obj, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(t); err != nil {
		return err
	}
	t.informer = informer.(toolscache.SharedIndexInformer) // as the wildcard cache requires it, too
	t.open = map[multicluster.ClusterName]*workspace{}
	return nil
}

// remove ends the calls of the workspace's handler, unless the workspace was engaged again.
func (t *tap) remove(w *workspace) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[w.name] == w {
		delete(t.open, w.name)
	}
}

// OnAdd implements toolscache.ResourceEventHandler.
func (t *tap) OnAdd(obj any, initial bool) {
	t.call(obj, func(ctx context.Context, to EventHandler) {
		to.Create(ctx, event.CreateEvent{Object: obj.(client.Object), IsInInitialList: initial}, t.watch.queue)
	})
}

// OnUpdate implements toolscache.ResourceEventHandler. A list may show an object in the place of another one of the
// same name. Then the former object is gone, and its deletion was not seen.
func (t *tap) OnUpdate(before, after any) {
	old, now := before.(client.Object), after.(client.Object)
	if old.GetUID() != now.GetUID() {
		t.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: old})
		t.OnAdd(now, false)
		return
	}
	t.call(now, func(ctx context.Context, to EventHandler) {
		to.Update(ctx, event.UpdateEvent{ObjectOld: old, ObjectNew: now}, t.watch.queue)
	})
}

// OnDelete implements toolscache.ResourceEventHandler. The handler gets the object as it was last seen, whether its
// deletion was seen or a list has left it out.
func (t *tap) OnDelete(obj any) {
	missing, unknown := obj.(toolscache.DeletedFinalStateUnknown)
	if unknown {
		obj = missing.Obj
	}
	t.call(obj, func(ctx context.Context, to EventHandler) {
		to.Delete(ctx, event.DeleteEvent{Object: obj.(client.Object), DeleteStateUnknown: unknown}, t.watch.queue)
	})
}

// call calls the handler of the workspace to which the object belongs.
func (t *tap) call(obj any, handle func(context.Context, EventHandler)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass(multicluster.ClusterName(logicalcluster.From(obj.(client.Object))), handle)
}

// pass calls the handler of a workspace, if the workspace is engaged. It makes the handler for each event, which costs
// less than to keep a handler for each workspace. The caller holds mu.
func (t *tap) pass(name multicluster.ClusterName, handle func(context.Context, EventHandler)) {
	if w := t.open[name]; w != nil && w.ctx.Err() == nil {
		handle(w.ctx, t.watch.handle(w.name, w.cluster))
	}
}
