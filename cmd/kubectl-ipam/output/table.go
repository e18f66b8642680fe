package output

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
)

// NewTable returns a table whose rows are objects. Columns named in lower case are
// for -o wide.
func NewTable(columns ...string) *metav1.Table {
	t := &metav1.Table{}
	for _, name := range columns {
		column := metav1.TableColumnDefinition{Name: strings.ToUpper(name), Type: "string"}
		if name != column.Name {
			column.Priority = 1
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions, column)
	}
	return t
}

// HideEmpty leaves a column for -o wide if no row has anything there.
func HideEmpty(t *metav1.Table, column string) {
	at := slices.IndexFunc(t.ColumnDefinitions, func(c metav1.TableColumnDefinition) bool { return c.Name == column })
	if !slices.ContainsFunc(t.Rows, func(r metav1.TableRow) bool { return r.Cells[at] != "-" }) {
		t.ColumnDefinitions[at].Priority = 1
	}
}

// Row is a line of a table. An empty cell is a dash.
func Row(object runtime.Object, cells ...string) metav1.TableRow {
	shown := make([]any, len(cells))
	for i, cell := range cells {
		shown[i] = cmp.Or(legible.Text(cell), "-")
	}
	return metav1.TableRow{Cells: shown, Object: runtime.RawExtension{Object: object}}
}

// addNamespaces adds a column with the namespace of each row's object.
func addNamespaces(t *metav1.Table) {
	t.ColumnDefinitions = slices.Insert(t.ColumnDefinitions, 0, NewTable("NAMESPACE").ColumnDefinitions...)
	for i, r := range t.Rows {
		t.Rows[i].Cells = slices.Insert(r.Cells, 0, Row(nil, r.Object.Object.(metav1.Object).GetNamespace()).Cells...)
	}
}

// WriteCSV prints all columns of a table as comma-separated values. The column NAME of an object has
// nothing but its name, for programs.
func WriteCSV(w io.Writer, t *metav1.Table, noHeaders bool) error {
	var records [][]string
	names := make([]string, len(t.ColumnDefinitions))
	for i, column := range t.ColumnDefinitions {
		names[i] = column.Name
	}
	if !noHeaders {
		records = append(records, names)
	}
	for _, r := range t.Rows {
		cells := make([]string, len(r.Cells))
		for i, cell := range r.Cells {
			if object, ok := r.Object.Object.(metav1.Object); ok && names[i] == "NAME" {
				cell = legible.Text(object.GetName())
			}
			if cell != "-" {
				cells[i] = legible.Cell(fmt.Sprint(cell))
			}
		}
		records = append(records, cells)
	}
	return csv.NewWriter(w).WriteAll(records)
}

// WriteTable prints the columns of a table that are not for -o wide.
func WriteTable(w io.Writer, t *metav1.Table) error {
	return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(t, w)
}

// Walk calls draw for a node of a tree and for each below it, with the signs that lead to its line.
func Walk[N any](node N, below func(N) []N, draw func(lead string, node N)) {
	walk(node, "", "", below, draw)
}

// walk draws a node behind lead, and those below it behind rest.
func walk[N any](node N, lead, rest string, below func(N) []N, draw func(string, N)) {
	draw(lead, node)
	children := below(node)
	for i, child := range children {
		if i == len(children)-1 {
			walk(child, rest+"└─ ", rest+"   ", below, draw)
			continue
		}
		walk(child, rest+"├─ ", rest+"│  ", below, draw)
	}
}
