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
	event  struct {
		Type   watch.EventType `json:"type"`
		Object jsontext.Value  `json:"object"`
	}
}

// lenient accepts what the decoder of client-go does. No controller reads managedFields. A metav1.Time
// would start a decoder of its own for each time.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true),
	json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(func(from *jsontext.Decoder, _ *[]metav1.ManagedFieldsEntry) error { return from.SkipValue() }),
		json.UnmarshalFromFunc(decodeTime),
	)))

// decodeTime reads a time in the form in which servers write it, and leaves any other to the time.
func decodeTime(from *jsontext.Decoder, to *metav1.Time) error {
	value, err := from.ReadValue()
	if err != nil {
		return err
	}
	if n := len(value); n > 2 && value[0] == '"' && to.UnmarshalText(value[1:n-1]) == nil {
		to.Time = to.Local() // as it does itself
		return nil
	}
	return to.UnmarshalJSON(value)
}

func newDecoder(body io.ReadCloser, obj runtime.Object) *decoder {
	return &decoder{body: body, stream: jsontext.NewDecoder(body, lenient), kind: reflect.TypeOf(obj).Elem()}
}

// Decode implements watch.Decoder.
func (d *decoder) Decode() (watch.EventType, runtime.Object, error) {
	d.event.Type, d.event.Object = "", d.event.Object[:0] // whose memory is used again
	if err := json.UnmarshalDecode(d.stream, &d.event, lenient); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.ErrUnexpectedEOF // which its caller compares
		}
		return "", nil, err
	}
	var obj runtime.Object
	switch d.event.Type {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		obj = reflect.New(d.kind).Interface().(runtime.Object)
	case watch.Error:
		obj = &metav1.Status{}
	default:
		return "", nil, fmt.Errorf("an event of type %q", d.event.Type)
	}
	if err := json.Unmarshal(d.event.Object, obj, lenient); err != nil {
		return "", nil, fmt.Errorf("decode the object of an event: %w", err)
	}
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as in all that client-go decodes
	return d.event.Type, obj, nil
}

// Close implements watch.Decoder.
func (d *decoder) Close() { _ = d.body.Close() }
