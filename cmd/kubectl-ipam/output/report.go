package output

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// Report prints what is no object of the API, as JSON or YAML if -o asks for it.
type Report struct {
	Format string
	// Also are the formats that the command prints by itself.
	Also []string
}

// formats are all that -o takes.
func (r *Report) formats() []string { return append([]string{JSON, YAML}, r.Also...) }

// AddFlags gives a command -o. A form that there is not is refused before the command runs.
func (r *Report) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&r.Format, "output", "o", "", "Output format: "+strings.Join(r.formats(), " or "))
	session.CompleteWith(cmd, "output", r.formats()...)
	session.Check(cmd, r.validate)
}

// Given reports whether the caller asked for a form.
func (r *Report) Given() bool { return r.Format != "" }

// Structured reports whether that form is JSON or YAML.
func (r *Report) Structured() bool { return r.Format == JSON || r.Format == YAML }

// validate refuses a form that there is not.
func (r *Report) validate() error {
	if r.Format == "" || slices.Contains(r.formats(), r.Format) {
		return nil
	}
	return exit.Usagef("--output is %q; write %s", r.Format, strings.Join(r.formats(), " or "))
}

// Show writes a report in the form that was asked for: a value, or the table with the same. The names are the first column.
func (r *Report) Show(w io.Writer, value any, t *metav1.Table) error {
	switch {
	case r.Structured():
		return r.Print(w, value)
	case r.Format == CSV:
		return WriteCSV(w, t, false)
	case r.Format == Name:
		for _, row := range t.Rows {
			screen.Line(w, "%s", row.Cells[0])
		}
		return nil
	}
	return WriteTable(w, t)
}

// Print writes a value in the form that was asked for.
func (r *Report) Print(w io.Writer, value any) error {
	return printEncoded(w, r.Format, func(format string) (string, error) {
		data, err := json.MarshalIndent(value, "", "    ")
		if err != nil || format == JSON {
			return string(data) + "\n", err
		}
		data, err = yaml.JSONToYAML(data)
		return string(data), err
	})
}

// printEncoded prints JSON or YAML without unprintable characters. The encoders of JSON leave DEL, C1
// controls and format characters as they are, and that of YAML fails on some: JSON is YAML as well.
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

// escapeJSON escapes the unprintable characters of JSON, which are in its strings, as \u and four
// digits. Characters beyond 16 bits are escaped by beyond, as JSON and YAML differ there.
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
