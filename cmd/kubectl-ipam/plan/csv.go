package plan

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
)

// These are the columns for which there is no field.
const (
	columnKind        = "kind"
	columnName        = "name"
	columnNamespace   = "namespace"
	columnCIDR        = "cidr"
	columnLength      = "length"
	columnHost        = "host"
	columnPool        = "pool"
	columnWorkspace   = "workspace"
	columnParentClass = "parent-class" // of a pool by class
	columnDescription = "description"  // of an exclusion
)

// Columns returns the columns that a table may have, in the order in which they are written.
func Columns() []string {
	return append([]string{
		columnKind, columnName, columnNamespace, columnCIDR, columnLength, columnHost, columnPool, columnWorkspace,
		columnParentClass,
	}, field.Columns()...)
}

// Options say how to read a table that was not written for this program. The zero value is for a table that was.
type Options struct {
	// Columns maps names of columns in the table to names in [Columns].
	Columns map[string]string
	// Ignore are the names of columns in the table that are not read.
	Ignore []string
	// LeaveOut has values by columns of the table. A row with one of these values in that column is not read. Case does
	// not matter.
	LeaveOut map[string][]string
	// Defaults has values by column. They replace empty cells, and cells of columns that the table lacks.
	Defaults map[string]string
	// Namespace is the namespace of claims that name none.
	Namespace string
	// Separator stands between the cells of the table. If it is 0, it is found in the first row.
	Separator rune
}

// table is a CSV file. Its first line was read.
type table struct {
	Options
	in *csv.Reader
	// columns has for each column of the file its name in [Columns]; empty: the column is ignored.
	columns []string
	// leaveOut has values by the number of a column. A row with one of these values in that column is not read.
	leaveOut map[int][]string
}

// ReadCSV reads a plan from a table. It reads the whole table, and returns the problems of its lines as well. A claim
// that names no pool and no class is for the pool of the plan that contains its block.
func ReadCSV(data []byte, options Options) (*Plan, []Problem) {
	found := &problems{}
	if found.notUTF8(data) {
		return &Plan{}, found.sorted()
	}
	t := open(data, options, found)
	if len(*found) > 0 {
		return &Plan{}, found.sorted()
	}
	b := &builder{plan: &Plan{}, problems: found, namespace: options.Namespace}
	for {
		cells, err := t.in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			found.add(lineOf(err, t.in), "%s", broken(err))
			b.plan.incomplete = true
			break // nobody knows where the next row begins
		}
		line, _ := t.in.FieldPos(0)
		if len(cells) != len(t.columns) {
			b.plan.incomplete = true
			found.add(line, "it has %d cells, and the table has %d columns: "+
				"put cells with a %s in quotes, and empty ones between two of them",
				len(cells), len(t.columns), separatorName(t.in.Comma))
			continue
		}
		if t.leftOut(cells) {
			b.plan.LeftOut++
			continue
		}
		b.row(t.row(line, cells, found))
	}
	b.exclude()
	b.source()
	return b.plan, found.sorted()
}

// open finds out how a table is written, and reads its columns.
func open(data []byte, options Options, found *problems) *table {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	// Some programs end lines with CRLF or CR.
	data = bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	data, separator := separatorLine(data)
	if options.Separator != 0 {
		separator = options.Separator
	}
	if separator == 0 {
		var err error
		if separator, err = separatorOf(data); err != nil {
			found.add(1, "%s", err)
			return nil
		}
	}
	t := &table{Options: options, in: rows(data, separator)}
	header, err := t.in.Read()
	if err != nil {
		found.add(1, "there are no columns: %s", broken(err))
		return nil
	}
	t.header(header, found)
	return t
}

// rows reads the rows of a table.
func rows(data []byte, separator rune) *csv.Reader {
	in := csv.NewReader(bytes.NewReader(data))
	in.FieldsPerRecord, in.Comma, in.Comment = -1, separator, '#'
	in.TrimLeadingSpace = separator != '\t' // a tab is a space, too, and would be lost
	return in
}

// header finds out what each column has.
func (t *table) header(names []string, found *problems) {
	line, _ := t.in.FieldPos(0)
	t.leaveOut = map[int][]string{}
	seen := map[string]bool{}
	for i, name := range names {
		name = strings.TrimSpace(name)
		column := strings.ToLower(name)
		if to, ok := folded(t.Columns, name); ok {
			column = to
		}
		values, ok := folded(t.LeaveOut, name)
		t.leaveOut[i] = values
		known := slices.Contains(Columns(), column)
		switch {
		case slices.ContainsFunc(t.Ignore, func(n string) bool { return strings.EqualFold(n, name) }), ok && !known:
			column = ""
		case known && !seen[column]:
		case strings.ContainsAny(name, separators+" ") && len(names) == 1:
			found.add(line, "there is one column alone: separate columns by , or ; or | or tab, or give --separator: %s",
				quoted(name))
		case !known:
			found.add(line, "there is no column %s: write one of %s; or give --column COLUMN=%q to read it as one of them, "+
				"or --ignore-column %q", quoted(column), strings.Join(Columns(), ", "), name, name)
		default:
			found.add(line, "the column %s is there twice: leave one of them out", column)
		}
		seen[column] = true
		t.columns = append(t.columns, column)
	}
	t.absent(line, names, found)
}

// folded returns the value of a name. It ignores upper and lower case.
func folded[V any](values map[string]V, name string) (_ V, ok bool) {
	for key, value := range values {
		if strings.EqualFold(key, name) {
			return value, true
		}
	}
	var none V
	return none, false
}

// absent reports columns that options name and the table does not have.
func (t *table) absent(line int, names []string, found *problems) {
	check := func(option, name string) {
		if !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(name, strings.TrimSpace(n)) }) {
			found.add(line, "%s: the table has no column %s: it has %s", option, quoted(name), strings.Join(names, ", "))
		}
	}
	for _, from := range slices.Sorted(maps.Keys(t.Columns)) {
		check("--column "+t.Columns[from]+"="+from, from)
	}
	for _, name := range slices.Sorted(maps.Keys(t.LeaveOut)) {
		check("--leave-out "+name, name)
	}
	for _, name := range t.Ignore {
		check("--ignore-column "+name, name)
	}
}

// leftOut reports whether options leave a row out of the plan.
func (t *table) leftOut(cells []string) bool {
	for i, values := range t.leaveOut {
		has := func(value string) bool { return strings.EqualFold(value, strings.TrimSpace(cells[i])) }
		if slices.ContainsFunc(values, has) {
			return true
		}
	}
	return false
}

func (t *table) row(line int, cells []string, found *problems) row {
	r := row{line: line, cells: map[string]string{}, defaults: t.Defaults, read: map[string]bool{}, problems: found}
	for i, cell := range cells {
		if t.columns[i] != "" {
			r.cells[t.columns[i]] = strings.TrimSpace(cell)
		}
	}
	return r
}

// lineOf returns the line at which reading failed.
func lineOf(err error, in *csv.Reader) int {
	if at, ok := errors.AsType[*csv.ParseError](err); ok {
		return at.Line
	}
	line, _ := in.FieldPos(0)
	return line
}

// broken says in words why a line cannot be read as a row.
func broken(err error) string {
	switch {
	case errors.Is(err, io.EOF):
		return "the file is empty; write a first line such as kind,name,cidr"
	case errors.Is(err, csv.ErrQuote), errors.Is(err, csv.ErrBareQuote):
		return `a quote stands alone: put the whole cell in quotes, and write "" for a quote in it; ` +
			"if another character than , or ; or | or tab separates the cells, give --separator"
	default:
		return fmt.Sprint(err)
	}
}

// nameOfBlock returns the name for a row without a name: its block, in characters that a name may have.
func nameOfBlock(block netip.Prefix) string {
	text := block.Addr().String()
	if block.Addr().Is6() {
		text = block.Addr().StringExpanded()
	}
	if !block.IsSingleIP() {
		text = fmt.Sprintf("%s-%d", text, block.Bits())
	}
	return "net-" + strings.NewReplacer(".", "-", ":", "-").Replace(text)
}

// separators are the characters that programs write between the cells of a table.
const separators = ",;\t|"

// ParseSeparator reads a separator of cells: one character, or the word tab. The error says what to write instead.
func ParseSeparator(text string) (rune, error) {
	if strings.EqualFold(text, "tab") || text == `\t` {
		return '\t', nil
	}
	r, size := utf8.DecodeRuneInString(text)
	if size == 0 || size != len(text) || r == utf8.RuneError || strings.ContainsRune("\"#\r\n\ufeff", r) {
		return 0, fmt.Errorf("%q separates no cells: write one character, such as ; or tab", text)
	}
	return r, nil
}

// separatorLine reads a first line such as sep=; by which a table tells spreadsheets its separator. It empties this
// line, so that the following lines keep their numbers.
func separatorLine(data []byte) (rest []byte, separator rune) {
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	text := strings.ToLower(strings.Trim(string(line), "\" "))
	text, ok := strings.CutPrefix(text, "sep=")
	r, size := utf8.DecodeRuneInString(text)
	if !ok || size == 0 || strings.Trim(text[size:], string(r)) != "" {
		return data, 0
	}
	return slices.Concat([]byte("\n"), rest), r
}

// separatorOf finds the separator that divides the first row into the most columns. It fails if two separators divide
// it into equally many.
func separatorOf(data []byte) (rune, error) {
	best, other, most := ',', rune(0), 1
	for _, r := range separators {
		row, err := rows(data, r).Read()
		switch {
		case err != nil: // with this separator, its quotes are in the wrong places
		case len(row) > most:
			best, other, most = r, 0, len(row)
		case len(row) == most && most > 1:
			other = r
		}
	}
	if other != 0 {
		return 0, fmt.Errorf("%s and %s may separate the columns: say by --separator which one does",
			separatorName(best), separatorName(other))
	}
	return best, nil
}

// separatorName writes a separator as --separator takes it.
func separatorName(r rune) string {
	if r == '\t' {
		return "tab"
	}
	return string(r)
}
