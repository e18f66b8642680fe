package main

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
	"sigs.k8s.io/yaml"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
)

// report prints what is no object of the API, as JSON or YAML if -o asks for it.
type report struct {
	format string
	// also are the formats that the command prints by itself.
	also []string
}

// formats are all that -o takes.
func (r *report) formats() []string { return append([]string{outputJSON, outputYAML}, r.also...) }

func (r *report) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&r.format, "output", "o", "", "Output format: "+strings.Join(r.formats(), " or "))
	completeWith(cmd, "output", r.formats()...)
}

// given reports whether the caller asked for a form.
func (r *report) given() bool { return r.format != "" }

// structured reports whether that form is JSON or YAML.
func (r *report) structured() bool { return r.format == outputJSON || r.format == outputYAML }

func (r *report) validate() error {
	if r.format == "" || slices.Contains(r.formats(), r.format) {
		return nil
	}
	return usagef("--output is %q; write %s", r.format, strings.Join(r.formats(), " or "))
}

// print writes a value in the form that was asked for.
func (r *report) print(w io.Writer, value any) error {
	return printEncoded(w, r.format, func(format string) (string, error) {
		data, err := json.MarshalIndent(value, "", "    ")
		if err != nil || format == outputJSON {
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
	case format != outputYAML:
		text = escapeJSON(text, func(r rune) string {
			high, low := utf16.EncodeRune(r)
			return fmt.Sprintf(`\u%04x\u%04x`, high, low)
		})
	case err != nil, text != legible.Escape(text, "\n\t"):
		text, err = encode(outputJSON)
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
