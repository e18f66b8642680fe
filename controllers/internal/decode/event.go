package wildcard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kcp-ipam/ipam/controllers/internal/decode"
)

// watches opens the watches of a cache.
type watches struct {
	config *rest.Config
	opts   cache.Options
}

// of lists as before, and watches with the decoder of this package.
func (w *watches) of(lists toolscache.ListerWatcher, obj runtime.Object) toolscache.ListerWatcher {
	return &toolscache.ListWatch{
		ListWithContextFunc: toolscache.ToListerWithContext(lists).ListWithContext,
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return w.open(ctx, obj, opts)
		},
	}
}

// open begins a watch of the objects of a kind, in all logical clusters.
func (w *watches) open(ctx context.Context, obj runtime.Object, opts metav1.ListOptions) (watch.Interface, error) {
	gvk, err := apiutil.GVKForObject(obj, w.opts.Scheme)
	if err != nil {
		return nil, err
	}
	mapping, err := w.opts.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	kind, err := apiutil.RESTClientForGVK(gvk, false, false, w.config, serializer.NewCodecFactory(w.opts.Scheme), w.opts.HTTPClient)
	if err != nil {
		return nil, err
	}
	opts.Watch, opts.AllowWatchBookmarks = true, true
	body, err := kind.Get().Resource(mapping.Resource.Resource).VersionedParams(&opts, runtime.NewParameterCodec(w.opts.Scheme)).Stream(ctx)
	if net.IsProbableEOF(err) || net.IsTimeout(err) {
		return watch.NewEmptyWatch(), nil // as client-go does: it is opened again at once
	}
	if err != nil {
		return nil, err
	}
	// The reporter says 500 as client-go's own does: other codes are those of servers.
	return watch.NewStreamWatcherWithLogger(klog.FromContext(ctx), newDecoder(body, obj),
		apierrors.NewClientErrorReporter(http.StatusInternalServerError, "GET", "ClientWatchDecoding")), nil
}

// decoder decodes the events of a watch. It is for one goroutine; Close ends a Decode that waits.
type decoder struct {
	body   io.Closer
	stream *jsontext.Decoder
	kind   reflect.Type
	event  event
}

func newDecoder(body io.ReadCloser, obj runtime.Object) *decoder {
	return &decoder{body: body, stream: jsontext.NewDecoder(body, decode.Options), kind: reflect.TypeOf(obj).Elem()}
}

// Decode implements watch.Decoder.
func (d *decoder) Decode() (watch.EventType, runtime.Object, error) {
	d.event = event{kind: d.kind}
	e := &d.event
	if err := json.UnmarshalDecode(d.stream, e, decode.Options); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.ErrUnexpectedEOF // which its caller compares
		}
		return "", nil, err
	}
	e.object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as in all that client-go decodes
	return e.name, e.object, nil
}

// event is one event of a watch.
type event struct {
	kind   reflect.Type // of its object, but for errors
	name   watch.EventType
	object runtime.Object
	early  jsontext.Value // an object before the type
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom. Servers write the type first: then the object is decoded as it is
// read. To find its end first would take a quarter more time.
func (e *event) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if kind := from.PeekKind(); kind != '{' && kind != 0 {
		return fmt.Errorf("an event begins with %s", kind)
	}
	_, err := from.ReadToken()
	for err == nil && from.PeekKind() != '}' {
		err = e.member(from)
	}
	if err != nil {
		return err
	}
	if _, err := from.ReadToken(); err != nil {
		return err
	}
	if e.object != nil {
		return nil
	}
	if e.object, err = e.blank(); err != nil {
		return err
	}
	return json.Unmarshal(e.early, e.object, decode.Options)
}

// member decodes a member of the event.
func (e *event) member(from *jsontext.Decoder) error {
	name, err := from.ReadToken()
	if err != nil {
		return err
	}
	switch name.String() {
	case "type":
		return json.UnmarshalDecode(from, &e.name, decode.Options)
	case "object":
		if e.name == "" {
			return json.UnmarshalDecode(from, &e.early, decode.Options)
		}
		if e.object, err = e.blank(); err != nil {
			return err
		}
		return json.UnmarshalDecode(from, e.object, decode.Options)
	}
	return from.SkipValue()
}

// blank is an empty object of the kind that an event of this type brings.
func (e *event) blank() (runtime.Object, error) {
	switch e.name {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		return reflect.New(e.kind).Interface().(runtime.Object), nil
	case watch.Error:
		return &metav1.Status{}, nil
	}
	return nil, fmt.Errorf("an event of type %q", e.name)
}

// Close implements watch.Decoder.
func (d *decoder) Close() { _ = d.body.Close() }
