package decode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Events decodes the events of a watch. An object with a field that cannot be decoded is marked, see [Object], and the
// watch goes on. Use Events from one goroutine. Only Close may be called from another one, and ends a Decode that
// waits.
type Events struct {
	body   io.ReadCloser
	stream *jsontext.Decoder
	read   *recorder // what stream reads
	kind   reflect.Type
	event  event
}

var _ watch.Decoder = (*Events)(nil)

// NewEvents returns a decoder of the events in body, which a watch of objects of this kind receives.
func NewEvents(body io.ReadCloser, obj runtime.Object) *Events {
	e := &Events{body: body, kind: reflect.TypeOf(obj).Elem()}
	e.follow(body)
	return e
}

func (d *Events) follow(stream io.Reader) {
	d.read = &recorder{Reader: stream}
	d.stream = jsontext.NewDecoder(d.read, Options)
}

// Decode implements watch.Decoder.
func (d *Events) Decode() (watch.EventType, runtime.Object, error) {
	d.read.forget(d.stream.InputOffset())
	d.event = event{kind: d.kind}
	e := &d.event
	err := json.UnmarshalDecode(d.stream, e, Options)
	if _, semantic := errors.AsType[*json.SemanticError](err); semantic {
		*e = event{kind: d.kind}
		err = d.again(err)
	}
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.ErrUnexpectedEOF // the caller compares it with ==
		}
		return "", nil, err
	}
	e.object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as in all that client-go decodes
	return e.name, e.object, nil
}

// again decodes an event once more, after the first attempt has failed with fault. It leaves out the fields of the
// event's object that cannot be decoded, and marks the object. If there is no object that can be decoded so, again
// returns fault.
func (d *Events) again(fault error) error {
	d.follow(io.MultiReader(bytes.NewReader(d.read.since()), d.read.Reader))
	raw, err := d.stream.ReadValue()
	if err != nil {
		return err
	}
	parts := struct {
		Type   watch.EventType `json:"type"`
		Object jsontext.Value  `json:"object"`
	}{}
	if json.Unmarshal(raw, &parts, Options) != nil {
		return fault
	}
	e := &d.event
	e.name = parts.Type
	if e.object, err = e.blank(); err != nil {
		return fault
	}
	obj, ok := e.object.(client.Object)
	if !ok || Object(parts.Object, obj) != nil {
		return fault
	}
	return nil
}

// recorder keeps the bytes that were read from a stream since the present event began.
type recorder struct {
	io.Reader
	kept  []byte
	first int64 // offset in the stream at which kept begins
	begin int   // index in kept at which the event begins
}

// Read implements io.Reader.
func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.kept = append(r.kept, p[:n]...)
	return n, err
}

// idle is how many bytes of earlier events may be kept, so that bytes are not moved for each event.
const idle = 1 << 16

// forget notes that an event begins at an offset of the stream. It drops the bytes before that offset once there are
// many.
func (r *recorder) forget(offset int64) {
	r.begin = int(offset - r.first)
	if r.begin < idle {
		return
	}
	r.kept = r.kept[:copy(r.kept, r.kept[r.begin:])]
	r.first, r.begin = offset, 0
}

// since returns the bytes of the event that were read so far, and all that were read after it.
func (r *recorder) since() []byte { return r.kept[r.begin:] }

// event is one event of a watch.
type event struct {
	kind   reflect.Type // of its object, unless the event is an error
	name   watch.EventType
	object runtime.Object
	early  jsontext.Value // the object, if it comes before the type
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom. Servers write the type of an event before the object. In this
// order, the object is decoded while it is read: to find its end first would take a quarter more time.
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
	return json.Unmarshal(e.early, e.object, Options)
}

// member decodes a member of the event.
func (e *event) member(from *jsontext.Decoder) error {
	name, err := from.ReadToken()
	if err != nil {
		return err
	}
	switch name.String() {
	case "type":
		return json.UnmarshalDecode(from, &e.name, Options)
	case "object":
		if e.name == "" {
			return json.UnmarshalDecode(from, &e.early, Options)
		}
		if e.object, err = e.blank(); err != nil {
			return err
		}
		return json.UnmarshalDecode(from, e.object, Options)
	}
	return from.SkipValue()
}

// blank returns an empty object of the kind that an event of this type has.
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
func (d *Events) Close() { _ = d.body.Close() }
