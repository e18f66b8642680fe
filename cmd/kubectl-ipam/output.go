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
)

// output prints objects in the form that -o asks for. addFlags comes first.
type output struct {
	format string
	flags  *genericclioptions.PrintFlags
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
	slices.Sort(formats)
	return append([]string{outputTable, outputWide}, slices.Compact(formats)...)
}

// given reports whether the caller asked for a form.
func (o *output) given() bool {
	return o.format != "" || *o.flags.TemplatePrinterFlags.TemplateArgument != ""
}

// tabular reports whether people are to read the output.
func (o *output) tabular() bool {
	return !o.given() || o.format == outputTable || o.format == outputWide
}

func (o *output) validate() error {
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
	table, err := tableOf(object, now())
	if err != nil {
		return err
	}
	return printers.NewTablePrinter(printers.PrintOptions{
		Wide: o.format == outputWide, WithNamespace: o.namespaces, NoHeaders: o.noHeaders,
	}).PrintObj(table, w)
}

// printManifest prints what is not stored: as YAML, unless another form is asked for.
func (o *output) printManifest(w io.Writer, object runtime.Object) error {
	if o.tabular() {
		o.format = "yaml"
	}
	return o.printAs(w, object)
}

func (o *output) printAs(w io.Writer, object runtime.Object) error {
	printer, err := o.flags.ToPrinter()
	if err != nil {
		return err
	}
	if !meta.IsListType(object) {
		return printer.PrintObj(object, w)
	}
	if err := meta.EachListItem(object, setKind); err != nil {
		return err
	}
	if o.format == "name" {
		return meta.EachListItem(object, func(item runtime.Object) error { return printer.PrintObj(item, w) })
	}
	return printer.PrintObj(object, w)
}

// setKind has an object of a list say what it is.
func setKind(object runtime.Object) error {
	kind, err := apiutil.GVKForObject(object, workspaces.NewScheme())
	object.GetObjectKind().SetGroupVersionKind(kind)
	return err
}
