package plan

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
)

// row is one line of a table, by column. What is read of it is noted: a cell that nothing has
// read is in the wrong column.
type row struct {
	line     int
	cells    map[string]string
	defaults map[string]string
	read     map[string]bool
	problems *problems
}

// text is a cell, or what stands for an empty one.
func (r row) text(column string) string {
	r.read[column] = true
	if cell := r.cells[column]; cell != "" {
		return cell
	}
	return r.defaults[column]
}

func (r row) wrong(column, format string, args ...any) {
	r.problems.add(r.line, "%s: %s", column, fmt.Sprintf(format, args...))
}

// dash is what stands between the two ends of a range.
var dash = regexp.MustCompile(`\s*[-–]\s*`)

// ranges returns the blocks and ranges of a cell that has several. A range may have blanks inside.
func (r row) ranges(f field.Field) []string {
	return f.Words(dash.ReplaceAllString(r.text(f.Column()), "-"))
}

// set sets fields to what their columns have.
func (r row) set(fields []field.Field) {
	for _, f := range fields {
		for _, word := range f.Words(r.text(f.Column())) {
			if err := f.Value.Set(word); err != nil {
				r.wrong(f.Column(), "%s is %v", quoted(word), err)
			}
		}
	}
}

// block reads cidr, which length completes if it is an address alone.
func (r row) block() (_ string, ok bool) {
	text, length := r.text(columnCIDR), r.text(columnLength)
	if length != "" && text != "" && !strings.Contains(text, "/") {
		text += "/" + strings.TrimPrefix(length, "/")
	}
	prefix, err := ParseBlock(text)
	if err != nil {
		r.wrong(columnCIDR, "%s", err)
		return "", false
	}
	if length == "" {
		return prefix.String(), true
	}
	n, err := field.ParseLength(length)
	if err != nil {
		r.wrong(columnLength, "%s is %v", quoted(length), err)
		return prefix.String(), true
	}
	if int(n) != prefix.Bits() {
		r.wrong(columnLength, "%d is not the length of %s: correct one of them, or leave the length empty", n, prefix)
		return "", false
	}
	return prefix.String(), true
}

// unread reports the cells that the row's kind has no use for.
func (r row) unread(kind string) {
	for _, column := range slices.Sorted(maps.Keys(r.cells)) {
		if r.cells[column] != "" && !r.read[column] {
			r.wrong(column, "it says nothing about a row of kind %s: leave the cell empty", kind)
		}
	}
}
