package plan

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
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

// words are those of a cell that has several.
func (r row) words(column string) []string {
	return strings.FieldsFunc(r.text(column), func(c rune) bool { return c == ' ' || c == ',' })
}

// dash is what stands between the two ends of a range.
var dash = regexp.MustCompile(`\s*[-–]\s*`)

// ranges are the blocks and ranges of a cell that has several. A range may have blanks inside.
func (r row) ranges(column string) []string {
	r.cells[column] = dash.ReplaceAllString(r.text(column), "-")
	return r.words(column)
}

func (r row) number(column string) int32 {
	text := r.text(column)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		r.wrong(column, "%s is no number: write one such as 1, or leave it empty", quoted(text))
	}
	return int32(n)
}

func (r row) length(column string) int32 {
	text := r.text(column)
	if text == "" {
		return 0
	}
	length, err := parseLength(text)
	if err != nil {
		r.wrong(column, "%s", err)
	}
	return int32(length)
}

// labels reads labels such as site=fra team=web.
func (r row) labels() map[string]string {
	var labels map[string]string
	for _, word := range r.words(columnLabels) {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			r.wrong(columnLabels, "%s is no label: write site=fra, and spaces between several", quoted(word))
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	return labels
}

// oneOf reads a word whatever its case, and is empty for an empty cell.
func oneOf[T ~string](r row, column string, words ...T) T {
	text := r.text(column)
	if text == "" {
		return ""
	}
	at := slices.IndexFunc(words, func(w T) bool { return strings.EqualFold(string(w), text) })
	if at < 0 {
		known := make([]string, len(words))
		for i, w := range words {
			known[i] = string(w)
		}
		r.wrong(column, "%s is none of its words: write %s", quoted(text), strings.Join(known, " or "))
		return ""
	}
	return words[at]
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
	if n := r.length(columnLength); n != 0 && int(n) != prefix.Bits() {
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

func texts[T ~string](words []string) []T {
	if len(words) == 0 {
		return nil
	}
	list := make([]T, len(words))
	for i, word := range words {
		list[i] = T(word)
	}
	return list
}

func strategies() []ipamv1alpha1.Strategy {
	return []ipamv1alpha1.Strategy{ipamv1alpha1.FirstFit, ipamv1alpha1.BestFit, ipamv1alpha1.LeastUtilized}
}
