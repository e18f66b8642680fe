// Package output prints objects and reports in the form that -o asks for: tables, CSV, JSON, YAML, names
// and templates.
package output

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/workspaces"
)

// These forms of output are named by more than one command.
const (
	Table = "table"
	Wide  = "wide"
	CSV   = "csv"
	JSON  = "json"
	YAML  = "yaml"
	Name  = "name"
)

// kinds returns the scheme that all commands share. No command changes it, and making one takes milliseconds.
var kinds = sync.OnceValue(workspaces.NewScheme)

// Printer prints objects in the form that -o asks for, with the printers of cli-runtime. AddFlags must be called first,
// then validate.
type Printer struct {
	Format string
	flags  *genericclioptions.PrintFlags
	// Namespaces adds a column with the namespace.
	Namespaces bool
	NoHeaders  bool
}

// AddFlags gives a command -o and the related flags. An unknown form is refused before the command runs.
func (o *Printer) AddFlags(cmd *cobra.Command) {
	o.flags = newFlags()
	o.flags.OutputFormat = &o.Format
	o.flags.JSONYamlPrintFlags.AddFlags(cmd)
	o.flags.TemplatePrinterFlags.AddFlags(cmd)
	cmd.Flags().StringVarP(&o.Format, "output", "o", "", "Output format: "+strings.Join(o.formats(), ", "))
	cmd.Flags().BoolVar(&o.NoHeaders, "no-headers", false, "Print tables without their first line")
	session.CompleteWith(cmd, "output", o.formats()...)
	cmd.PreRunE = func(*cobra.Command, []string) error { return o.validate() }
}

func newFlags() *genericclioptions.PrintFlags {
	return genericclioptions.NewPrintFlags("").WithTypeSetter(kinds())
}

func (o *Printer) formats() []string {
	formats := o.flags.AllowedFormats()
	slices.Sort(formats)
	return append([]string{Table, Wide, CSV}, slices.Compact(formats)...)
}

// Given reports whether the caller asked for a form.
func (o *Printer) Given() bool {
	return o.Format != "" || o.flags != nil && *o.flags.TemplatePrinterFlags.TemplateArgument != ""
}

// Tabular reports whether the output is a table.
func (o *Printer) Tabular() bool {
	return !o.Given() || o.Format == Table || o.Format == Wide || o.Format == CSV
}

// validate refuses an unknown form.
func (o *Printer) validate() error {
	if o.Tabular() {
		return nil
	}
	_, err := o.flags.ToPrinter()
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		err = fmt.Errorf("write one of %s; kubectl get prints custom-columns", strings.Join(o.formats(), ", "))
	}
	if err != nil {
		return exit.Usagef("--output is %q: %w", o.Format, err)
	}
	return nil
}

// Print prints an object or a list.
func (o *Printer) Print(w io.Writer, object runtime.Object, now func() time.Time) error {
	if !o.Tabular() {
		return o.printAs(w, object)
	}
	t, err := tableOf(object, now())
	if err != nil {
		return err
	}
	if o.Namespaces {
		addNamespaces(t)
	}
	return o.printTable(w, t)
}

func (o *Printer) printTable(w io.Writer, t *metav1.Table) error {
	if o.Format == CSV {
		return WriteCSV(w, t, o.NoHeaders)
	}
	return printers.NewTablePrinter(printers.PrintOptions{Wide: o.Format == Wide, NoHeaders: o.NoHeaders}).PrintObj(t, w)
}

// PrintManifest prints an object that is not stored: as YAML, unless the caller asked for another form.
func (o *Printer) PrintManifest(w io.Writer, object runtime.Object) error {
	if o.Tabular() {
		o.Format = YAML
	}
	return o.printAs(w, object)
}

// printAs prints an object or a list in a form other than a table.
func (o *Printer) printAs(w io.Writer, object runtime.Object) error {
	items := []runtime.Object{object}
	if meta.IsListType(object) {
		if err := meta.EachListItem(object, setKind); err != nil {
			return err
		}
		items, _ = meta.ExtractList(object)
	}
	encode := func(format string) (string, error) { return o.encode(format, object) }
	switch {
	case o.Format == Name:
		for _, item := range items {
			name, err := o.encode(Name, item)
			if err != nil {
				return err
			}
			screen.Line(w, "%s", strings.TrimSuffix(name, "\n"))
		}
		return nil
	case o.Format == YAML, o.Format == JSON, strings.HasPrefix(o.Format, "jsonpath-as-json"):
		return printEncoded(w, o.Format, encode)
	}
	text, err := encode(o.Format)
	if err != nil {
		return err
	}
	return screen.Data(w, text)
}

// encode prints an object in a format.
func (o *Printer) encode(format string, object runtime.Object) (string, error) {
	flags := *cmp.Or(o.flags, newFlags())
	flags.OutputFormat = &format
	printer, err := flags.ToPrinter()
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = printer.PrintObj(object, &text)
	return text.String(), err
}

// setKind sets the kind of an object from a list, as the server leaves it out.
func setKind(object runtime.Object) error {
	kind, err := apiutil.GVKForObject(object, kinds())
	object.GetObjectKind().SetGroupVersionKind(kind)
	return err
}
