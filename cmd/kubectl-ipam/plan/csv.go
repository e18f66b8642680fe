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
)

// The columns of a table, in the order in which they are written.
const (
	columnKind           = "kind"
	columnName           = "name"
	columnNamespace      = "namespace"
	columnCIDR           = "cidr"
	columnLength         = "length"
	columnHost           = "host"
	columnPool           = "pool"
	columnWorkspace      = "workspace"
	columnClass          = "class"
	columnDomain         = "domain"
	columnVisibility     = "visibility"
	columnConsumers      = "consumers"
	columnExclude        = "exclude"
	columnGateway        = "gateway"
	columnNetworkLength  = "network-length"
	columnMinLength      = "min-length"
	columnMaxLength      = "max-length"
	columnStrategy       = "strategy"
	columnLeading        = "leading"
	columnTrailing       = "trailing"
	columnUnitLength     = "unit-length"
	columnSliceLength    = "slice-length"
	columnMaxSlices      = "max-slices"
	columnMaxPerConsumer = "max-per-consumer"
	columnCooldown       = "release-cooldown"
	columnMaxLease       = "max-retention-lease"
	columnReclaim        = "reclaim-policy"
	columnRetained       = "retained-policy"
	columnOwner          = "owner"
	columnOwnerUID       = "owner-uid"
	columnLabels         = "labels"
)

// Columns are the columns that a table may have, in any order.
func Columns() []string {
	return []string{
		columnKind, columnName, columnNamespace, columnCIDR, columnLength, columnHost, columnPool, columnWorkspace, columnClass,
		columnDomain, columnVisibility, columnConsumers, columnExclude, columnGateway, columnNetworkLength, columnMinLength,
		columnMaxLength, columnStrategy, columnLeading, columnTrailing, columnUnitLength, columnSliceLength, columnMaxSlices,
		columnMaxPerConsumer, columnCooldown, columnMaxLease, columnReclaim, columnRetained, columnOwner, columnOwnerUID, columnLabels,
	}
}

// Options say how to read a table that was not written for this program. The zero value reads one
// that was.
type Options struct {
	// Columns maps the name of a column of the table to one of [Columns].
	Columns map[string]string
	// Ignore are names of columns of the table that are not read.
	Ignore []string
	// Defaults are values for empty cells, by column, and for columns that the table lacks.
	Defaults map[string]string
	// Namespace is that of claims that name none.
	Namespace string
	// Separator stands between the cells of the table; 0 is that of its first row.
	Separator rune
}

// table is a CSV file whose first line is read.
type table struct {
	Options
	in *csv.Reader
	// columns has a name of [Columns] for each column of the file; empty for one that is ignored.
	columns []string
}

// ReadCSV reads a plan from a table. It reads the whole of it, and returns what is wrong with its
// lines beside the plan. Rows without a pool or a class claim from the pool of the plan that
// contains their block.
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
			break // where the next row begins is unknown
		}
		line, _ := t.in.FieldPos(0)
		if len(cells) != len(t.columns) {
			b.plan.incomplete = true
			found.add(line, "it has %d cells, and the table has %d columns: put cells with a %s in quotes, and empty ones between two of them", len(cells), len(t.columns), separatorName(t.in.Comma))
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
	data, separator := separatorLine(unixLines(bytes.TrimPrefix(data, []byte("\ufeff"))))
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
	t := &table{Options: options, in: csv.NewReader(bytes.NewReader(data))}
	t.in.FieldsPerRecord, t.in.Comma, t.in.Comment = -1, separator, '#'
	t.in.TrimLeadingSpace = separator != '\t' // which is a space, too, and would be lost
	header, err := t.in.Read()
	if err != nil {
		found.add(1, "there are no columns: %s", broken(err))
		return nil
	}
	t.header(header, found)
	return t
}

// header finds out what the columns are.
func (t *table) header(names []string, found *problems) {
	line, _ := t.in.FieldPos(0)
	has := func(column string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(column, strings.TrimSpace(name)) })
	}
	seen := map[string]bool{}
	for _, name := range names {
		column := strings.ToLower(strings.TrimSpace(name))
		for from, to := range t.Columns {
			if strings.EqualFold(from, strings.TrimSpace(name)) {
				column = to
			}
		}
		ignored := slices.ContainsFunc(t.Ignore, func(n string) bool { return strings.EqualFold(n, strings.TrimSpace(name)) })
		switch {
		case ignored:
			column = ""
		case slices.Contains(Columns(), column) && !seen[column]:
		case strings.ContainsAny(name, separators+" ") && len(names) == 1:
			found.add(line, "there is one column alone: separate columns by , or ; or | or tab, or give --separator: %s", quoted(name))
		case !slices.Contains(Columns(), column):
			found.add(line, "there is no column %s: write one of %s; or give --column COLUMN=%q to read it as one of them, or --ignore-column %q", quoted(column), strings.Join(Columns(), ", "), name, name)
		default:
			found.add(line, "the column %s is there twice: leave one of them out", column)
		}
		seen[column] = true
		t.columns = append(t.columns, column)
	}
	for _, from := range slices.Sorted(maps.Keys(t.Columns)) {
		if !has(from) {
			found.add(line, "--column %s=%s: the table has no column %s: it has %s", t.Columns[from], from, quoted(from), strings.Join(names, ", "))
		}
	}
	for _, name := range t.Ignore {
		if !has(name) {
			found.add(line, "--ignore-column %s: the table has no column %s: it has %s", name, quoted(name), strings.Join(names, ", "))
		}
	}
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

// lineOf is the line on which reading failed.
func lineOf(err error, in *csv.Reader) int {
	if at, ok := errors.AsType[*csv.ParseError](err); ok {
		return at.Line
	}
	line, _ := in.FieldPos(0)
	return line
}

// broken says in words why a line is no row.
func broken(err error) string {
	switch {
	case errors.Is(err, io.EOF):
		return "the file is empty; write a first line such as kind,name,cidr"
	case errors.Is(err, csv.ErrQuote), errors.Is(err, csv.ErrBareQuote):
		return `a quote stands alone: put the whole cell in quotes, and write "" for a quote in it; if another character than , or ; or | or tab separates the cells, give --separator`
	default:
		return fmt.Sprint(err)
	}
}

// nameOfBlock is the name for a row that has none: the block, in letters that a name may have.
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
