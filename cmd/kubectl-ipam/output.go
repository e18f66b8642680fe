package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kcp-ipam/ipam/workspaces"
)

const (
	outputTable = "table"
	outputWide  = "wide"
	outputCSV   = "csv"
	outputJSON  = "json"
	outputYAML  = "yaml"
	outputName  = "name"
)

// output prints objects in the form that -o asks for, by the printers of cli-runtime. addFlags comes
// first, then validate.
type output struct {
	format string
	flags  *genericclioptions.PrintFlags
	// columns are those that -o custom-columns names; nil without it.
	columns []column
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
	formats := append(o.flags.AllowedFormats(), outputColumns, outputColumnsFile)
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
	if o.columns, err = parseColumns(o.format); err != nil || o.tabular() {
		return err
	}
	_, err = o.flags.ToPrinter()
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		err = fmt.Errorf("write one of %s", strings.Join(o.formats(), ", "))
	}
	if err != nil {
		return usagef("--output is %q: %w", o.format, err)
	}
	return nil
}

// print prints an object or a list.
func (o *output) print(w io.Writer, object runtime.Object, now func() time.Time) error {
	switch {
	case !o.tabular():
		return o.printAs(w, object)
	case o.columns != nil:
		t, err := columnTable(o.columns, object)
		if err != nil {
			return err
		}
		return printers.NewTablePrinter(printers.PrintOptions{NoHeaders: o.noHeaders}).PrintObj(t, w)
	}
	t, err := tableOf(object, now())
	if err != nil {
		return err
	}
	if o.namespaces {
		addNamespaces(t)
	}
	if o.format == outputCSV {
		return printCSV(w, t, o.noHeaders)
	}
	return printers.NewTablePrinter(printers.PrintOptions{Wide: o.format == outputWide, NoHeaders: o.noHeaders}).PrintObj(t, w)
}

// printManifest prints what is not stored: as YAML, unless another form is asked for.
func (o *output) printManifest(w io.Writer, object runtime.Object) error {
	if o.columns != nil {
		return o.print(w, object, time.Now)
	}
	if o.tabular() {
		o.format = outputYAML
	}
	return o.printAs(w, object)
}

// printAs prints an object or a list in a form that is no table.
func (o *output) printAs(w io.Writer, object runtime.Object) error {
	items := []runtime.Object{object}
	if meta.IsListType(object) {
		if err := meta.EachListItem(object, setKind); err != nil {
			return err
		}
		items, _ = meta.ExtractList(object)
	}
	encode := func(format string) (string, error) { return o.encode(format, object) }
	switch {
	case o.format == outputName:
		for _, item := range items {
			name, err := o.encode(outputName, item)
			if err != nil {
				return err
			}
			printLine(w, "%s", strings.TrimSuffix(name, "\n"))
		}
		return nil
	case o.format == outputYAML, o.format == outputJSON, strings.HasPrefix(o.format, "jsonpath-as-json"):
		return printEncoded(w, o.format, encode)
	}
	text, err := encode(o.format)
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

// setKind sets the kind of an object of a list, which the server leaves out.
func setKind(object runtime.Object) error {
	kind, err := apiutil.GVKForObject(object, workspaces.NewScheme())
	object.GetObjectKind().SetGroupVersionKind(kind)
	return err
}
