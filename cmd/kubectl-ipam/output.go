package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
	"github.com/kcp-ipam/ipam/workspaces"
)

const (
	outputTable = "table"
	outputWide  = "wide"
	outputCSV   = "csv"
)

// output prints objects in the form that -o asks for. addFlags comes first.
type output struct {
	format string
	flags  *genericclioptions.PrintFlags
	// columns are those that -o custom-columns names; nil without it.
	columns *customColumns
	// namespaces adds a column with the namespace.
	namespaces bool
	noHeaders  bool
}

func (o *output) addFlags(cmd *cobra.Command) {
	o.flags = genericclioptions.NewPrintFlags("").WithTypeSetter(workspaces.NewScheme())
	o.flags.OutputFormat = &o.format
	o.flags.JSONYamlPrintFlags.AddFlags(cmd)
	o.flags.TemplatePrinterFlags.AddFlags(cmd)
	cmd.Flags().StringVarP(&o.format, "output", "o", "", "Output format: "+strings.Join(o.formats(), ", "))
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "Print tables without their first line")
	completeWith(cmd, "output", o.formats()...)
}

func (o *output) formats() []string {
	formats := o.flags.AllowedFormats()
	formats = append(formats, outputColumns, outputColumnsFile)
	slices.Sort(formats)
	return append([]string{outputTable, outputWide, outputCSV}, slices.Compact(formats)...)
}

// given reports whether the caller asked for a form.
func (o *output) given() bool {
	return o.format != "" || *o.flags.TemplatePrinterFlags.TemplateArgument != ""
}

// tabular reports whether the output is a table.
func (o *output) tabular() bool {
	return !o.given() || o.columns != nil || o.format == outputTable || o.format == outputWide || o.format == outputCSV
}

func (o *output) validate() error {
	var err error
	if o.columns, err = parseColumns(o.format); err != nil {
		return err
	}
	if o.tabular() {
		return nil
	}
	if _, err := o.flags.ToPrinter(); err != nil {
		return usagef("--output is %q: %w", o.format, oneOfFormats(err, o.formats()))
	}
	return nil
}

func oneOfFormats(err error, formats []string) error {
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		return fmt.Errorf("write one of %s", strings.Join(formats, ", "))
	}
	return err
}

// print prints an object or a list.
func (o *output) print(w io.Writer, object runtime.Object, now func() time.Time) error {
	if !o.tabular() {
		return o.printAs(w, object)
	}
	table, err := o.table(object, now())
	if err != nil {
		return err
	}
	if o.namespaces && o.columns == nil {
		if err := addNamespaces(table); err != nil {
			return err
		}
	}
	if o.format == outputCSV {
		return printCSV(w, bareNames(table), o.noHeaders)
	}
	return printers.NewTablePrinter(printers.PrintOptions{Wide: o.format == outputWide, NoHeaders: o.noHeaders}).PrintObj(table, w)
}

// table is an object or a list as a table, with the columns of the caller or our own.
func (o *output) table(object runtime.Object, now time.Time) (*metav1.Table, error) {
	if o.columns != nil {
		return o.columns.table(object)
	}
	return tableOf(object, now)
}

// printManifest prints what is not stored: as YAML, unless another form is asked for.
func (o *output) printManifest(w io.Writer, object runtime.Object) error {
	if o.columns != nil {
		return o.print(w, object, time.Now)
	}
	if o.tabular() {
		o.format = "yaml"
	}
	return o.printAs(w, object)
}

func (o *output) printAs(w io.Writer, object runtime.Object) error {
	if meta.IsListType(object) {
		if err := meta.EachListItem(object, setKind); err != nil {
			return err
		}
	}
	switch {
	case o.format == "name" && meta.IsListType(object):
		return meta.EachListItem(object, func(item runtime.Object) error { return o.printName(w, item) })
	case o.format == "name":
		return o.printName(w, object)
	case o.format == "json", strings.HasPrefix(o.format, "jsonpath-as-json"):
		return o.printJSON(w, object)
	case o.format == "yaml":
		return o.printYAML(w, object)
	}
	text, err := o.encode(o.format, object)
	if err != nil {
		return err
	}
	return printData(w, text)
}

// encode prints an object in a format.
func (o *output) encode(format string, object runtime.Object) (string, error) {
	flags := *o.flags
	flags.OutputFormat = &format
	printer, err := flags.ToPrinter()
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = printer.PrintObj(object, &text)
	return text.String(), err
}

// printName prints kind and name of an object on one line.
func (o *output) printName(w io.Writer, object runtime.Object) error {
	name, err := o.encode("name", object)
	if err == nil {
		printLine(w, "%s", strings.TrimSuffix(name, "\n"))
	}
	return err
}

// printJSON escapes the unprintable characters that the encoder does not escape: DEL, C1
// controls and format characters.
func (o *output) printJSON(w io.Writer, object runtime.Object) error {
	text, err := o.encode(o.format, object)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, safeJSON(text))
	return err
}

// safeJSON is JSON without unprintable characters.
func safeJSON(text string) string {
	return numbered(text, func(r rune) string {
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	})
}

// yamlOfJSON is JSON without unprintable characters, by the escapes of YAML.
func yamlOfJSON(text string) string {
	return numbered(text, func(r rune) string { return fmt.Sprintf(`\U%08x`, r) })
}

func printable(text string) bool { return text == legible.Escape(text, "\n\t") }

// printYAML prints JSON, which is YAML, if the YAML encoder fails on an unprintable character or
// does not escape it.
func (o *output) printYAML(w io.Writer, object runtime.Object) error {
	text, err := o.encode("yaml", object)
	if err == nil && printable(text) {
		_, err = io.WriteString(w, text)
		return err
	}
	if text, err = o.encode("json", object); err != nil {
		return err
	}
	_, err = io.WriteString(w, yamlOfJSON(text))
	return err
}

// numbered is JSON whose unprintable characters, which are in its strings, are escaped as \u
// and four digits. Characters beyond 16 bits are escaped by beyond, as JSON and YAML differ there.
func numbered(text string, beyond func(rune) string) string {
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

// setKind sets the kind of an object of a list, which the server leaves out.
func setKind(object runtime.Object) error {
	kind, err := apiutil.GVKForObject(object, workspaces.NewScheme())
	object.GetObjectKind().SetGroupVersionKind(kind)
	return err
}
