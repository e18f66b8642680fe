package output

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode"
	"unicode/utf16"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
)

// PrintReport prints a value other than an API object. If the form is tabular, it prints t, which has the same data; if
// the form is name, it prints the first column of t. t is nil for a value without names.
func (o *Printer) PrintReport(w io.Writer, value any, t *metav1.Table) error {
	switch {
	case o.Format == Name && t == nil:
		return exit.Usagef("--output is %q, and there are no names here; write json or yaml", Name)
	case o.Format == Name:
		for _, row := range t.Rows {
			screen.Line(w, "%s", row.Cells[0])
		}
		return nil
	case o.Tabular() && t != nil:
		return o.printTable(w, t)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return o.PrintManifest(w, &runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Report"}, Raw: raw})
}

// printEncoded prints JSON or YAML without unprintable characters. The encoder of JSON leaves DEL, C1 controls and
// format characters as they are, so printEncoded escapes them. The encoder of YAML fails on some. Then printEncoded
// prints JSON, which is valid YAML.
func printEncoded(w io.Writer, format string, encode func(format string) (string, error)) error {
	text, err := encode(format)
	switch {
	case format != YAML:
		text = escapeJSON(text, func(r rune) string {
			high, low := utf16.EncodeRune(r)
			return fmt.Sprintf(`\u%04x\u%04x`, high, low)
		})
	case err != nil, text != legible.Escape(text, "\n\t"):
		text, err = encode(JSON)
		text = escapeJSON(text, func(r rune) string { return fmt.Sprintf(`\U%08x`, r) })
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

// escapeJSON escapes the unprintable characters of JSON, which are all inside strings, as \u and four digits. For
// characters beyond 16 bits it calls beyond, because JSON and YAML escape these differently.
func escapeJSON(text string, beyond func(rune) string) string {
	var shown strings.Builder
	for _, r := range text {
		switch {
		case r == '\n', unicode.IsGraphic(r):
			shown.WriteRune(r)
		case r > math.MaxUint16:
			shown.WriteString(beyond(r))
		default:
			fmt.Fprintf(&shown, `\u%04x`, r)
		}
	}
	return shown.String()
}
