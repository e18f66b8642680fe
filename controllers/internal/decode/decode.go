// Package decode reads the JSON of servers as client-go does, in a tenth of the time. It is for what reads hundreds of
// thousands of objects.
package decode

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Options accept what the decoder of client-go accepts, and bring what it brings but for managedFields, which no
// controller reads.
var Options = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true),
	json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(func(from *jsontext.Decoder, _ *[]metav1.ManagedFieldsEntry) error { return from.SkipValue() }),
		json.UnmarshalFromFunc(decodeTime),
	)))

// decodeTime reads a time in the form in which servers write it, and leaves any other to the time. A metav1.Time would
// start a decoder of its own for each.
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
