package output

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
)

const (
	customColumns     = "custom-columns"
	customColumnsFile = "custom-columns-file"
)

// column is a column that the caller names, as for kubectl get.
type column struct {
	name  string
	field *jsonpath.JSONPath
}

// parseColumns reads the columns that a format such as
// custom-columns=NAME:.metadata.name,BLOCK:.status.allocatedCIDR names; nil for another format.
func parseColumns(format string) ([]column, error) {
	kind, spec, _ := strings.Cut(format, "=")
	var pairs []string
	switch {
	case kind != customColumns && kind != customColumnsFile:
		return nil, nil
	case spec == "":
		return nil, exit.Usagef("--output is %q; write %s=... after it", format, kind)
	case kind == customColumns:
		pairs = strings.Split(spec, ",")
	default:
		var err error
		if pairs, err = columnsIn(spec); err != nil {
			return nil, err
		}
	}
	columns := make([]column, len(pairs))
	for i, pair := range pairs {
		name, path, ok := strings.Cut(pair, ":")
		if !ok || name == "" {
			return nil, exit.Usagef("column %q has no field; write NAME:FIELD, such as BLOCK:.status.allocatedCIDR", pair)
		}
		field, err := parseField(path)
		if err != nil {
			return nil, exit.Usagef("column %s is %q; write a field such as .status.allocatedCIDR: %w", name, path, err)
		}
		columns[i] = column{name, field}
	}
	return columns, nil
}

// columnsIn reads names and fields, as NAME:FIELD, from a file with a line of each.
func columnsIn(file string) (pairs []string, _ error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	above, below, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	names, fields := strings.Fields(above), strings.Fields(below)
	if len(names) != len(fields) {
		return nil, exit.Usagef("%s must have two lines: the names of the columns, and below each its field, such as .metadata.name", file)
	}
	for i, name := range names {
		pairs = append(pairs, name+":"+fields[i])
	}
	return pairs, nil
}

// parseField reads a JSONPath, with or without braces and the first dot.
func parseField(path string) (*jsonpath.JSONPath, error) {
	field := jsonpath.New("field").AllowMissingKeys(true)
	return field, field.Parse("{." + strings.TrimPrefix(strings.Trim(path, "{}"), ".") + "}")
}

// valuesOf are the texts that an object has in a field; of a list in it, all of them.
func valuesOf(item runtime.Object, field *jsonpath.JSONPath) ([]string, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
	if err != nil {
		return nil, err
	}
	found, err := field.FindResults(content)
	if err != nil {
		return nil, exit.Usagef("%w", err)
	}
	var values []string
	for _, result := range found {
		for _, value := range result {
			values = append(values, fmt.Sprint(value.Interface()))
		}
	}
	return values, nil
}

// columnTable makes a table of an object or a list, with the columns that the caller names.
func columnTable(columns []column, object runtime.Object) (*metav1.Table, error) {
	items := []runtime.Object{object}
	if meta.IsListType(object) {
		var err error
		if items, err = meta.ExtractList(object); err != nil {
			return nil, err
		}
	}
	t := &metav1.Table{}
	for _, c := range columns {
		t.ColumnDefinitions = append(t.ColumnDefinitions, metav1.TableColumnDefinition{Name: c.name, Type: "string"})
	}
	for _, item := range items {
		cells := make([]any, len(columns))
		for i, c := range columns {
			values, err := valuesOf(item, c.field)
			if err != nil {
				return nil, err
			}
			cells[i] = cmp.Or(legible.Text(strings.Join(values, ",")), "<none>")
		}
		t.Rows = append(t.Rows, metav1.TableRow{Cells: cells})
	}
	return t, nil
}
