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
	t := &table{Options: options, in: csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))}
	t.in.FieldsPerRecord, t.in.TrimLeadingSpace, t.in.Comment = -1, true, '#'
	header, err := t.in.Read()
	if err != nil {
		found.add(1, "there are no columns: %s", broken(err))
		return &Plan{}, found.sorted()
	}
	if t.header(header, found); len(*found) > 0 {
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
			break // where the next row begins is unknown
		}
		line, _ := t.in.FieldPos(0)
		if len(cells) != len(t.columns) {
			found.add(line, "it has %d cells, and the table has %d columns: put cells with a comma in quotes, and empty ones between two commas", len(cells), len(t.columns))
			continue
		}
		b.row(t.row(line, cells, found))
	}
	b.exclude()
	b.source()
	return b.plan, found.sorted()
}

// header finds out what the columns are.
func (t *table) header(names []string, found *problems) {
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
		case strings.ContainsAny(name, ";\t") && len(names) == 1:
			found.add(1, "the columns are not separated by commas: write %s", strings.Join(strings.FieldsFunc(name, func(r rune) bool { return r == ';' || r == '\t' }), ","))
		case !slices.Contains(Columns(), column):
			found.add(1, "there is no column %q: write one of %s; or give --column COLUMN=%q to read it as one of them, or --ignore-column %q", column, strings.Join(Columns(), ", "), name, name)
		case seen[column]:
			found.add(1, "the column %s is there twice: leave one of them out", column)
		}
		seen[column] = true
		t.columns = append(t.columns, column)
	}
	for _, from := range slices.Sorted(maps.Keys(t.Columns)) {
		if !slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(from, strings.TrimSpace(name)) }) {
			found.add(1, "--column %s=%s: the table has no column %q: it has %s", t.Columns[from], from, from, strings.Join(names, ", "))
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
		return `a quote stands alone: put the whole cell in quotes, and write "" for a quote in it`
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
