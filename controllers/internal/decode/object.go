// Package decode reads the JSON of servers as client-go does, in a tenth of the time. Use it to read hundreds of
// thousands of objects.
package decode

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Mark is the annotation of an object that could not be decoded whole. Its value says why. No server stores an
// annotation of this name.
const Mark = "(unreadable)"

// longest is the length to which the text of a fault is cut, because the text may contain a value that a user wrote.
const longest = 300

// lenient decodes all fields that can be decoded. If other fields cannot, it also returns an error.
var lenient = json.JoinOptions(Options, jsonv1.ReportErrorsWithLegacySemantics(true))

// UnreadableError is returned instead of a stored object if one of the object's fields has a value that the field's Go
// type cannot hold. It proves only that the object exists.
type UnreadableError struct {
	// Object is the object without the fields that could not be decoded. It is marked, see [Unreadable].
	Object client.Object
	// Fault says which field could not be decoded.
	Fault string
}

// Error implements error.
func (e *UnreadableError) Error() string {
	return "the object cannot be read, write it again as the API says, or delete it: " + e.Fault
}

// Unreadable returns an *UnreadableError if the object was not decoded whole, and else nil.
func Unreadable(obj client.Object) error {
	if fault, marked := obj.GetAnnotations()[Mark]; marked {
		return &UnreadableError{Object: obj, Fault: fault}
	}
	return nil
}

// Object decodes an object into an empty one of its kind. If a field cannot be decoded, Object decodes all other
// fields, and marks the object as unreadable, because a single object must not fail the list or the watch that it is
// in. Object fails only if the JSON is no object with a name and a UID.
func Object(raw []byte, into client.Object) error {
	strict := json.Unmarshal(raw, into, Options)
	if strict == nil {
		return nil
	}
	reflect.ValueOf(into).Elem().SetZero()
	fault := json.Unmarshal(raw, into, lenient)
	if fault == nil || into.GetName() == "" || into.GetUID() == "" {
		return strict
	}
	into.SetAnnotations(withMark(into.GetAnnotations(), fault))
	return nil
}

func withMark(annotations map[string]string, fault error) map[string]string {
	if annotations == nil {
		annotations = map[string]string{}
	}
	text := fault.Error()
	annotations[Mark] = strings.ToValidUTF8(text[:min(len(text), longest)], "")
	return annotations
}

// page is a list whose objects are not decoded yet.
type page struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ListMeta  `json:"metadata"`
	Items           []jsontext.Value `json:"items"`
}

// List decodes a list into an empty one of its kind. It tries to decode the whole list in one go, because to find the
// end of each object first takes a quarter more time. If that fails, it decodes each object by itself: see [Object].
func List(raw []byte, into client.ObjectList) error {
	strict := json.Unmarshal(raw, into, Options)
	if _, semantic := errors.AsType[*json.SemanticError](strict); !semantic {
		return strict
	}
	read := page{}
	if err := json.Unmarshal(raw, &read, Options); err != nil {
		return err
	}
	objects := make([]runtime.Object, 0, len(read.Items))
	for _, item := range read.Items {
		obj, err := blank(into)
		if err != nil {
			return err
		}
		if err := Object(item, obj); err != nil {
			return fmt.Errorf("an object of the list: %w", err)
		}
		objects = append(objects, obj)
	}
	reflect.ValueOf(into).Elem().SetZero()
	into.GetObjectKind().SetGroupVersionKind(read.GroupVersionKind())
	into.SetResourceVersion(read.Metadata.ResourceVersion)
	into.SetContinue(read.Metadata.Continue)
	into.SetRemainingItemCount(read.Metadata.RemainingItemCount)
	return meta.SetList(into, objects)
}

// blank returns an empty object of a list's kind.
func blank(list client.ObjectList) (client.Object, error) {
	items, err := meta.GetItemsPtr(list)
	if err != nil {
		return nil, err
	}
	obj, ok := reflect.TypeAssert[client.Object](reflect.New(reflect.TypeOf(items).Elem().Elem()))
	if !ok {
		return nil, fmt.Errorf("%T is not a list of objects", list)
	}
	return obj, nil
}

// Options decode what client-go decodes, with the same result, except managedFields, which no controller reads.
var Options = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true),
	json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(func(from *jsontext.Decoder, _ *[]metav1.ManagedFieldsEntry) error {
			return from.SkipValue()
		}),
		json.UnmarshalFromFunc(decodeTime),
	)))

// decodeTime reads a time in the form in which servers write it, without the decoder that metav1.Time would start for
// each time. It leaves any other form to metav1.Time.
func decodeTime(from *jsontext.Decoder, to *metav1.Time) error {
	value, err := from.ReadValue()
	if err != nil {
		return err
	}
	if n := len(value); n > 2 && value[0] == '"' && to.UnmarshalText(value[1:n-1]) == nil {
		to.Time = to.Local() // as UnmarshalJSON of metav1.Time does
		return nil
	}
	return to.UnmarshalJSON(value)
}
