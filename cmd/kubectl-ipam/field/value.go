// Package field has the fields of pools, claims and classes, in the one form that flags and the columns of plans share:
// the meaning of a word, how it is written, and the word to write instead of a wrong one.
package field

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Field is a field of an object. A flag and a column can set it.
type Field struct {
	// Name is the name of the flag.
	Name, Usage string
	// Value sets the field of the object. Its errors continue the words "it is".
	Value pflag.Value
	// column is the name of the column if it differs from Name.
	column string
}

// Column returns the name of the column.
func (f Field) Column() string { return cmp.Or(f.column, f.Name) }

// Words splits a cell into words if the field takes several. Otherwise it returns the whole cell. An empty cell has no
// words.
func (f Field) Words(cell string) []string {
	if _, ok := f.Value.(pflag.SliceValue); ok {
		return strings.FieldsFunc(cell, func(c rune) bool { return c == ' ' || c == ',' })
	}
	if cell == "" {
		return nil
	}
	return []string{cell}
}

// Cell returns the value of the field as it is written into a column.
func (f Field) Cell() string {
	if several, ok := f.Value.(pflag.SliceValue); ok {
		return strings.Join(several.GetSlice(), " ")
	}
	return f.Value.String()
}

// single is a field with one value.
type single struct {
	get  func() string
	set  func(text string) error
	kind string
	// words are the words that the field takes; empty if it takes any text.
	words []string
}

// String implements pflag.Value. pflag calls it on a zero value, too, where it returns an empty string.
func (v *single) String() string {
	if v.get == nil {
		return ""
	}
	return v.get()
}

// Set implements pflag.Value.
func (v *single) Set(text string) error { return v.set(text) }

// Type implements pflag.Value.
func (v *single) Type() string { return v.kind }

// Choices returns the words that a field takes; empty if it takes any text.
func (f Field) Choices() []string {
	if one, ok := f.Value.(*single); ok {
		return one.words
	}
	return nil
}

// Text returns a value that takes any text.
func Text[T ~string](at *T) pflag.Value {
	return &single{kind: "string", get: func() string { return string(*at) }, set: func(text string) error {
		*at = T(text)
		return nil
	}}
}

// Word returns a value that takes one of a few words, in upper or lower case. The word in at is the default.
func Word[T ~string](at *T, words ...T) pflag.Value {
	known := make([]string, len(words))
	for i, word := range words {
		known[i] = string(word)
	}
	return &single{kind: "string", words: known, get: func() string { return string(*at) }, set: func(text string) error {
		i := slices.IndexFunc(known, func(word string) bool { return strings.EqualFold(word, text) })
		if i < 0 {
			return fmt.Errorf("none of its words: write %s", strings.Join(known, " or "))
		}
		*at = words[i]
		return nil
	}}
}

// Target returns a value that takes the kind of space that a claim holds: block, which is the default, or range.
func Target(at *ipamv1alpha1.ClaimTarget) pflag.Value {
	const block, whole = "block", "range"
	word := block
	if *at == ipamv1alpha1.TargetScopeRange {
		word = whole
	}
	words := Word(&word, block, whole).(*single)
	return &single{kind: words.kind, words: words.words, get: func() string {
		if *at != ipamv1alpha1.TargetScopeRange {
			return ""
		}
		return whole
	}, set: func(text string) error {
		if err := words.set(text); err != nil {
			return err
		}
		if *at = ""; word == whole {
			*at = ipamv1alpha1.TargetScopeRange
		}
		return nil
	}}
}

// Number returns a value that takes a number from zero on. It writes zero as an empty text.
func Number(at *int32) pflag.Value {
	shown := func() string { return strings.TrimPrefix(strconv.Itoa(int(*at)), "0") }
	return &single{kind: "int32", get: shown, set: func(text string) error {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return errors.New("no number: write one such as 1, or leave it empty")
		}
		*at = int32(n)
		return nil
	}}
}

// Length returns a value that takes a prefix length, as 28 or /28.
func Length(at *int32) pflag.Value {
	v := Number(at).(*single)
	v.kind = "length"
	v.set = func(text string) (err error) {
		*at, err = ParseLength(text)
		return err
	}
	return v
}

// Duration returns a value that takes a duration, which must not be shorter than least.
func Duration(at *time.Duration, least time.Duration) pflag.Value {
	return &single{kind: "duration", get: at.String, set: func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d < least {
			return fmt.Errorf("no duration of at least %s: write a duration such as 30s or 5m", least)
		}
		*at = d
		return nil
	}}
}

// ParseLength reads a prefix length, as 28 or /28.
func ParseLength(text string) (int32, error) {
	length, err := strconv.ParseUint(strings.TrimPrefix(text, "/"), 10, 8)
	if err != nil || length < 1 || length > 128 {
		return 0, errors.New("no prefix length: write 1 to 32 for IPv4, 1 to 128 for IPv6")
	}
	return int32(length), nil
}

// Annotation returns a value that takes any text, and stores it as an annotation of an object.
func Annotation(of *metav1.ObjectMeta, name string) pflag.Value {
	return &single{kind: "string", get: func() string { return of.Annotations[name] }, set: func(text string) error {
		metav1.SetMetaDataAnnotation(of, name, text)
		return nil
	}}
}

// within returns a value for a field in an optional part of an object. The part is nil while all of its fields are
// zero.
func within[P comparable](part **P, field func(*P) pflag.Value) pflag.Value {
	of := func() *P {
		if *part == nil {
			return new(P)
		}
		return *part
	}
	shown := func() string { return field(of()).String() }
	return &single{kind: field(new(P)).Type(), get: shown, set: func(text string) error {
		changed := of()
		err := field(changed).Set(text)
		if *part = changed; *changed == *new(P) {
			*part = nil
		}
		return err
	}}
}

// Owner returns a value that takes the object that uses a block, as KIND/NAME or KIND/NAMESPACE/NAME. The kind is
// followed by a dot and its group, unless that is the core group.
func Owner(at **ipamv1alpha1.OwnerRef) pflag.Value {
	return within(at, func(ref *ipamv1alpha1.OwnerRef) pflag.Value {
		return &single{kind: "string", get: func() string { return ownerText(ref) }, set: func(text string) error {
			parts := strings.Split(text, "/")
			if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
				return errors.New("no object: write KIND/NAMESPACE/NAME, or KIND/NAME for a kind without namespaces, " +
					"such as Service/default/web or Machine.example.com/default/m-1")
			}
			ref.Name = parts[len(parts)-1]
			ref.Kind, ref.APIGroup, _ = strings.Cut(parts[0], ".")
			if len(parts) == 3 {
				ref.Namespace = parts[1]
			}
			return nil
		}}
	})
}

// ownerText writes an owner as Owner reads it.
func ownerText(ref *ipamv1alpha1.OwnerRef) string {
	kind := ref.Kind
	if ref.APIGroup != "" {
		kind += "." + ref.APIGroup
	}
	parts := []string{kind, ref.Namespace, ref.Name}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "/")
}

// several is a value for a field with several values. Set adds the values of a text, which commas separate.
type several struct {
	single
	list func() []string
}

func severalOf(kind string, list func() []string, add func(text string) error) pflag.Value {
	return &several{single{kind: kind, set: add, get: func() string { return strings.Join(list(), ",") }}, list}
}

// Append implements pflag.SliceValue.
func (v *several) Append(text string) error { return v.set(text) }

// Replace implements pflag.SliceValue. Nothing calls it: no such field has a default.
func (v *several) Replace([]string) error { return errors.ErrUnsupported }

// GetSlice implements pflag.SliceValue.
func (v *several) GetSlice() []string { return v.list() }

// List returns a value that takes texts, separated by commas.
func List[T ~string](at *[]T) pflag.Value {
	return severalOf("strings", func() []string {
		words := make([]string, len(*at))
		for i, word := range *at {
			words[i] = string(word)
		}
		return words
	}, func(text string) error {
		for word := range strings.SplitSeq(text, ",") {
			*at = append(*at, T(word))
		}
		return nil
	})
}

// Labels returns a value that takes labels such as site=fra, separated by commas.
func Labels(at *map[string]string) pflag.Value {
	return severalOf("stringToString", func() []string {
		words := make([]string, 0, len(*at))
		for _, key := range slices.Sorted(maps.Keys(*at)) {
			words = append(words, key+"="+(*at)[key])
		}
		return words
	}, func(text string) error {
		for word := range strings.SplitSeq(text, ",") {
			key, value, ok := strings.Cut(word, "=")
			if !ok {
				return errors.New("no label: write site=fra, and spaces or commas between several")
			}
			if *at == nil {
				*at = map[string]string{}
			}
			(*at)[key] = value
		}
		return nil
	})
}
