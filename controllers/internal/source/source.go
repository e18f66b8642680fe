// Package source lists and watches the objects of a kind for a cache. Each object is decoded by itself. An object that
// cannot be read whole is shown with its metadata, marked, and spoils no other object. See package decode.
//
// Log and metrics show the objects that cannot be read, and for how long the list of a kind is overdue. A cache that
// waits for a list logs nothing itself.
package source

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kcp-ipam/ipam/controllers/internal/decode"
)

// Of returns a ListerWatcher of the objects of a kind at the server of cfg. Each object is decoded by itself: see
// package decode. opts needs Scheme, Mapper and HTTPClient. Log and metrics show the objects that cannot be decoded,
// and a list that is overdue.
func Of(cfg *rest.Config, opts cache.Options, obj runtime.Object) toolscache.ListerWatcher {
	s := &source{config: cfg, opts: opts, obj: obj, health: health{server: cfg.Host}}
	if gvk, err := apiutil.GVKForObject(obj, opts.Scheme); err == nil { // if it fails, get returns the error
		s.health.kind, s.faults.kind = gvk.Kind, gvk.Kind
	}
	return &toolscache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}
}

// source lists and watches for one informer.
type source struct {
	config *rest.Config
	opts   cache.Options
	obj    runtime.Object
	health health
	faults faults
	ends   sync.Once
}

// end makes sure that the counted faults are forgotten when ctx, the context of the cache, ends.
func (s *source) end(ctx context.Context) {
	s.ends.Do(func() { context.AfterFunc(ctx, s.faults.reset) })
}

// list lists one page of the objects, or all of them.
func (s *source) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	gvk, request, err := s.get(opts)
	if err != nil {
		return nil, err
	}
	s.end(ctx)
	s.health.begin(ctx)
	made, err := s.opts.Scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	list, ok := made.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%T is not a list of objects", made)
	}
	raw, err := request.Do(ctx).Raw()
	if err == nil {
		err = decode.List(raw, list)
	}
	if err != nil {
		s.health.fail(ctx, err)
		return nil, err
	}
	if opts.Continue == "" {
		s.faults.reset()
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		s.faults.note(ctx, watch.Added, item.(client.Object))
		return nil
	})
	if list.GetContinue() == "" {
		s.health.end()
	}
	return list, err
}

// watch begins a watch of the objects.
func (s *source) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch, opts.AllowWatchBookmarks = true, true
	_, request, err := s.get(opts)
	if err != nil {
		return nil, err
	}
	s.end(ctx)
	lists := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if lists {
		s.health.begin(ctx)
		s.faults.reset()
	}
	body, err := request.Stream(ctx)
	if net.IsProbableEOF(err) || net.IsTimeout(err) {
		return watch.NewEmptyWatch(), nil // as client-go does: it is opened again at once
	}
	if err != nil {
		s.health.fail(ctx, err)
		return nil, err
	}
	if !lists {
		s.health.end()
	}
	// The reporter says 500, like the one of client-go: any other code would look like the answer of a server.
	return watch.NewStreamWatcherWithLogger(klog.FromContext(ctx),
		&events{Decoder: decode.NewEvents(body, s.obj), ctx: ctx, source: s},
		apierrors.NewClientErrorReporter(http.StatusInternalServerError, "GET", "ClientWatchDecoding")), nil
}

// get prepares a request for the objects.
func (s *source) get(opts metav1.ListOptions) (schema.GroupVersionKind, *rest.Request, error) {
	gvk, err := apiutil.GVKForObject(s.obj, s.opts.Scheme)
	if err != nil {
		return gvk, nil, err
	}
	mapping, err := s.opts.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return gvk, nil, err
	}
	kind, err := apiutil.RESTClientForGVK(gvk, true, false, s.config, serializer.NewCodecFactory(s.opts.Scheme),
		s.opts.HTTPClient)
	if err != nil {
		return gvk, nil, err
	}
	return gvk, kind.Get().Resource(mapping.Resource.Resource).VersionedParams(&opts,
		runtime.NewParameterCodec(s.opts.Scheme)), nil
}

// events decodes the events of a watch. It reports objects that cannot be read, and the end of the list with which the
// watch began.
type events struct {
	watch.Decoder
	ctx    context.Context //nolint:containedctx // it is that of the watch
	source *source
}

// Decode implements watch.Decoder.
func (e *events) Decode() (watch.EventType, runtime.Object, error) {
	name, obj, err := e.Decoder.Decode()
	if err != nil {
		return name, obj, err
	}
	object, ok := obj.(client.Object)
	switch {
	case !ok: // a Status that says what went wrong
	case name != watch.Bookmark:
		e.source.faults.note(e.ctx, name, object)
	case object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true":
		e.source.health.end()
	}
	return name, obj, nil
}

// Guarded returns an informer whose readers never get an object that cannot be read: they get an
// *decode.UnreadableError, and no "not found". Lists and handlers get such an object with its readable fields, marked.
func Guarded(informer toolscache.SharedIndexInformer) toolscache.SharedIndexInformer {
	return guarded{informer}
}

type guarded struct{ toolscache.SharedIndexInformer }

// GetIndexer implements toolscache.SharedIndexInformer.
func (g guarded) GetIndexer() toolscache.Indexer { return Guard{g.SharedIndexInformer.GetIndexer()} }

// Guard is the indexer of [Guarded].
type Guard struct{ toolscache.Indexer }

// GetByKey implements toolscache.Store.
func (g Guard) GetByKey(key string) (any, bool, error) {
	obj, shown, err := g.Indexer.GetByKey(key)
	if object, ok := obj.(client.Object); ok && err == nil {
		err = decode.Unreadable(object)
	}
	if err != nil {
		return nil, false, err
	}
	return obj, shown, nil
}
