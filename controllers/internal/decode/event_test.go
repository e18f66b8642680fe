package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/randfill"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// theirs is the decoder of client-go. [Events] must decode as it does.
func theirs(t testing.TB, body io.ReadCloser) watch.Decoder {
	t.Helper()
	scheme := testbed.Scheme(t, apisv1alpha2.AddToScheme)
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	codecs := serializer.NewCodecFactory(scheme)
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		t.Fatal("client-go has no serializer of JSON")
	}
	frames := streaming.NewDecoder(info.StreamSerializer.NewFrameReader(body), info.StreamSerializer.Serializer)
	return restwatch.NewDecoder(frames, codecs.WithoutConversion().DecoderToVersion(info.Serializer, nil))
}

func stream(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }

// kinds returns an empty object of each kind that is watched, with the kind and version that a server writes.
func kinds() map[string]client.Object {
	typed := func(group, kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: group + "/v1alpha1", Kind: kind}
	}
	return map[string]client.Object{
		"claim":   &ipamv1alpha1.IPClaim{TypeMeta: typed("ipam.miloapis.com", "IPClaim")},
		"record":  &ipamv1alpha1.IPAllocation{TypeMeta: typed("ipam.miloapis.com", "IPAllocation")},
		"pool":    &ipamv1alpha1.IPPool{TypeMeta: typed("ipam.miloapis.com", "IPPool")},
		"binding": &apisv1alpha2.APIBinding{TypeMeta: metav1.TypeMeta{APIVersion: apisv1alpha2.SchemeGroupVersion.String(), Kind: "APIBinding"}},
	}
}

// Random objects of each kind are decoded as client-go decodes them, except managedFields. An object gets no fields
// from the object before it.
func TestDecode_AgreesWithClientGo(t *testing.T) {
	const objects = 200
	for name, blank := range kinds() {
		t.Run(name, func(t *testing.T) {
			random := randfill.NewWithSeed(1).NilChance(0.3).NumElements(0, 3).Funcs(
				func(at *metav1.Time, c randfill.Continue) { *at = metav1.Unix(c.Int63n(4_000_000_000), 0) },
				func(fields *metav1.FieldsV1, _ randfill.Continue) { fields.SetRawString(`{"f:spec":{}}`) },
				func(extra *runtime.RawExtension, _ randfill.Continue) { extra.Raw = []byte(`{"a":1}`) },
				func(*metav1.TypeMeta, randfill.Continue) {}, // as it is
				func(text *string, c randfill.Continue) { *text = letters(c.Rand) },
			)
			var text bytes.Buffer
			for range objects {
				object := blank.DeepCopyObject()
				random.Fill(object)
				raw := must.Get(json.Marshal(object))(t)
				text.WriteString(`{"type":"MODIFIED","object":` + string(raw) + "}\n")
			}
			want, got := theirs(t, stream(text.String())), NewEvents(stream(text.String()), blank)
			for range objects {
				sameEvent(t, want, got)
			}
			if _, _, err := got.Decode(); !errors.Is(err, io.EOF) {
				t.Errorf("Decode at the end = %v, want EOF", err)
			}
		})
	}
}

// letters returns text with every character that JSON escapes.
func letters(r *rand.Rand) string {
	const all = `abcXYZ019-./:"\<>&é世` + "\n\t\x00\u2028"
	runes := []rune(all)
	text := make([]rune, r.Intn(12))
	for i := range text {
		text[i] = runes[r.Intn(len(runes))]
	}
	return string(text)
}

// sameEvent fails the test unless both decoders return the same event.
func sameEvent(t *testing.T, theirs, ours watch.Decoder) {
	t.Helper()
	wantType, want, wantErr := theirs.Decode()
	gotType, got, gotErr := ours.Decode()
	if object, ok := want.(client.Object); ok {
		object.SetManagedFields(nil)
	}
	if (wantErr == nil) != (gotErr == nil) || wantType != gotType || !reflect.DeepEqual(want, got) {
		t.Fatalf("Decode brought\n%s %+v, %v\nand that of client-go brings\n%s %+v, %v", gotType, got, gotErr, wantType, want, wantErr)
	}
}

// Rare events of servers, and malformed ones, are decoded as client-go decodes them.
func TestDecode_AgreesOnRareAndMalformedEvents(t *testing.T) {
	const kind = `"apiVersion":"ipam.miloapis.com/v1alpha1","kind":"IPClaim"`
	for name, text := range map[string]string{
		"bookmark":            `{"type":"BOOKMARK","object":{` + kind + `,"metadata":{"resourceVersion":"7","creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true"}}}}`,
		"deleted":             `{"type":"DELETED","object":{` + kind + `,"metadata":{"name":"a","deletionTimestamp":"2026-01-02T03:04:05Z"}}}`,
		"error":               `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}}`,
		"object first":        `{"object":{` + kind + `,"metadata":{"name":"a"}},"type":"ADDED"}`,
		"unknown field":       `{"type":"ADDED","object":{` + kind + `,"metadata":{"name":"a","new":{"x":[1]}},"spec":{"fromTomorrow":true}},"more":1}`,
		"fields twice":        `{"type":"ADDED","object":{` + kind + `,"metadata":{"name":"a","name":"b"}}}`,
		"fields in capitals":  `{"type":"ADDED","object":{` + kind + `,"metadata":{"Name":"a"},"Spec":{"prefixLength":3}}}`,
		"nulls":               `{"type":"ADDED","object":{` + kind + `,"metadata":null,"spec":{"className":null,"prefixLength":null,"ownerRef":null},"status":{"conditions":null}}}`,
		"empty lists":         `{"type":"ADDED","object":{` + kind + `,"metadata":{"labels":{},"finalizers":[]},"status":{"conditions":[]}}}`,
		"managedFields":       `{"type":"ADDED","object":{` + kind + `,"metadata":{"managedFields":[{"manager":"m","time":"2026-01-02T03:04:05Z","fieldsV1":{"f:a":{}}}],"name":"a"}}}`,
		"not UTF-8":           `{"type":"ADDED","object":{` + kind + `,"metadata":{"name":"` + "\xff" + `"}}}`,
		"half a character":    `{"type":"ADDED","object":{` + kind + `,"metadata":{"name":"\ud800"}}}`,
		"wrong type of field": `{"type":"ADDED","object":{` + kind + `,"metadata":{"name":7}}}`,
		"number too large":    `{"type":"ADDED","object":{` + kind + `,"spec":{"prefixLength":99999999999}}}`,
		"fraction":            `{"type":"ADDED","object":{` + kind + `,"spec":{"prefixLength":1.5}}}`,
		"no such time":        `{"type":"ADDED","object":{` + kind + `,"metadata":{"creationTimestamp":"yesterday"}}}`,
		"no type":             `{"object":{` + kind + `}}`,
		"unknown type":        `{"type":"RENAMED","object":{` + kind + `}}`,
		"no object":           `{"type":"ADDED"}`,
		"no JSON":             `<html>`,
		"cut off":             `{"type":"ADDED","object":{` + kind + `,"meta`,
		"nothing":             ``,
	} {
		t.Run(name, func(t *testing.T) {
			sameEvent(t, theirs(t, stream(text)), NewEvents(stream(text), &ipamv1alpha1.IPClaim{}))
		})
	}
}

// Close ends a Decode that waits, as a StreamWatcher requires.
func TestDecode_EndsWhenClosed(t *testing.T) {
	reader, writer := io.Pipe()
	defer writer.Close()
	d := NewEvents(reader, &ipamv1alpha1.IPClaim{})
	ended := make(chan error, 1)
	go func() {
		_, _, err := d.Decode()
		ended <- err
	}()
	d.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("Decode of a closed stream returned an event")
		}
	case <-time.After(10 * time.Second):
		t.Error("Decode still waits after Close")
	}
}

// BenchmarkDecode compares the decoder of client-go with Events, for claims as kcp sends them.
func BenchmarkDecode(b *testing.B) {
	text := strings.ReplaceAll(`{"type":"ADDED","object":{"apiVersion":"ipam.miloapis.com/v1alpha1","kind":"IPClaim","metadata":{
"annotations":{"kcp.io/cluster":"2x7tq0fqzmdbp3kl"},"creationTimestamp":"2026-01-02T03:04:05Z","generation":1,"managedFields":[
{"apiVersion":"ipam.miloapis.com/v1alpha1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"f:className":{},"f:prefixLength":{}}},
"manager":"kubectl-create","operation":"Update","time":"2026-01-02T03:04:05Z"},
{"apiVersion":"ipam.miloapis.com/v1controller1","fieldsType":"FieldsV1","fieldsV1":{"f:status":{".":{},"f:address":{},"f:allocatedCIDR":{},
"f:conditions":{".":{},"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},"f:message":{},"f:observedGeneration":{},"f:reason":{}}},
"f:observedGeneration":{},"f:phase":{}}},"manager":"ipam-controller","operation":"Update","subresource":"status","time":"2026-01-02T03:04:05Z"}],
"name":"web","namespace":"default","resourceVersion":"123456","uid":"0b8a3a0e-6f0b-4d43-9d5a-000000000000"},
"spec":{"className":"shared","prefixLength":32},"status":{"address":"10.0.0.1","allocatedCIDR":"10.0.0.1/32","className":"shared","conditions":[
{"lastTransitionTime":"2026-01-02T03:04:05Z","message":"bound to 10.0.0.1/32","observedGeneration":1,"reason":"AllocationSucceeded","status":"True","type":"Ready"}],
"ipFamily":"IPv4","observedGeneration":1,"phase":"Bound","poolRef":{"name":"shared","projectRef":{"name":"root:ipam"}}}}}`, "\n", "") + "\n"
	for name, open := range map[string]func(io.ReadCloser) watch.Decoder{
		"client-go": func(body io.ReadCloser) watch.Decoder { return theirs(b, body) },
		"once":      func(body io.ReadCloser) watch.Decoder { return NewEvents(body, &ipamv1alpha1.IPClaim{}) },
	} {
		b.Run(name, func(b *testing.B) {
			d := open(io.NopCloser(&repeated{text: text}))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := d.Decode(); err != nil {
					b.Fatalf("Decode: %v", err)
				}
			}
		})
	}
}

// repeated is a text without end.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}
