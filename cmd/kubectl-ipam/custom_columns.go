package main

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"
)

const (
	outputColumns     = "custom-columns"
	outputColumnsFile = "custom-columns-file"
)

// customColumns is a table whose columns the caller names, as for kubectl get.
type customColumns struct {
	names  []string
	fields []*jsonpath.JSONPath
}

// parseColumns reads the columns that a format such as
// custom-columns=NAME:.metadata.name,BLOCK:.status.allocatedCIDR names; nil for another format.
func parseColumns(format string) (*customColumns, error) {
	kind, spec, given := strings.Cut(format, "=")
	switch {
	case kind != outputColumns && kind != outputColumnsFile:
		return nil, nil //nolint:nilnil // another format has no columns
	case !given || spec == "":
		return nil, usagef("--output is %q; write %s=... after it", format, kind)
	case kind == outputColumnsFile:
		return columnsOfFile(spec)
	}
	columns := &customColumns{}
	for column := range strings.SplitSeq(spec, ",") {
		name, path, ok := strings.Cut(column, ":")
		if !ok || name == "" {
			return nil, usagef("column %q has no field; write NAME:FIELD, such as BLOCK:.status.allocatedCIDR", column)
		}
		if err := columns.add(name, path); err != nil {
			return nil, err
		}
	}
	return columns, nil
}

// columnsOfFile reads a line of names and a line of fields below them.
func columnsOfFile(file string) (*customColumns, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	names, paths := strings.Fields(lines[0]), strings.Fields(lines[len(lines)-1])
	if len(lines) != 2 || len(names) != len(paths) {
		return nil, usagef("%s must have two lines: the names of the columns, and below each its field, such as .metadata.name", file)
	}
	columns := &customColumns{}
	for i, name := range names {
		if err := columns.add(name, paths[i]); err != nil {
			return nil, err
		}
	}
	return columns, nil
}

func (c *customColumns) add(name, path string) error {
	field, err := parseField(path)
	if err != nil {
		return usagef("column %s is %q; write a field such as .status.allocatedCIDR: %w", name, path, err)
	}
	c.names, c.fields = append(c.names, name), append(c.fields, field)
	return nil
}

// parseField reads a JSONPath, with or without braces and the first dot.
func parseField(path string) (*jsonpath.JSONPath, error) {
	field := jsonpath.New("field").AllowMissingKeys(true)
	return field, field.Parse("{." + strings.TrimPrefix(strings.Trim(path, "{}"), ".") + "}")
}

// table is an object or a list as a table with these columns.
func (c *customColumns) table(object runtime.Object) (*metav1.Table, error) {
	items := []runtime.Object{object}
	if meta.IsListType(object) {
		var err error
		if items, err = meta.ExtractList(object); err != nil {
			return nil, err
		}
	}
	t := &metav1.Table{}
	for _, name := range c.names {
		t.ColumnDefinitions = append(t.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for _, item := range items {
		cells, err := c.cells(item)
		if err != nil {
			return nil, err
		}
		t.Rows = append(t.Rows, metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Object: item}})
	}
	return t, nil
}

// cells are the values of an object's fields; of a list in a field, all of them.
func (c *customColumns) cells(item runtime.Object) ([]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
	if err != nil {
		return nil, err
	}
	cells := make([]any, len(c.fields))
	for i, field := range c.fields {
		found, err := field.FindResults(content)
		if err != nil {
			return nil, usagef("column %s: %w", c.names[i], err)
		}
		var values []string
		for _, result := range found {
			for _, value := range result {
				values = append(values, plain(fmt.Sprint(value.Interface())))
			}
		}
		cells[i] = orElse(strings.Join(values, ","), "<none>")
	}
	return cells, nil
}
