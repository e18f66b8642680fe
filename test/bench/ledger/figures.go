package ledger

import (
	"fmt"
	"strings"

	"github.com/kcp-ipam/ipam/test/bench/page"
)

// figures are what the rounds of one measurement gave.
type figures []float64

// write returns the median and, in brackets, the quartiles.
func (f figures) write(format string) string { return page.Spread(format, f) }

func (f figures) quantile(q float64) float64 { return page.Quantile(f, q) }

// over divides round by round.
func (f figures) over(base figures) figures {
	ratios := make(figures, len(f))
	for i := range f {
		ratios[i] = f[i] / base[i]
	}
	return ratios
}

// each applies a conversion to all.
func (f figures) each(convert func(float64) float64) figures {
	converted := make(figures, len(f))
	for i := range f {
		converted[i] = convert(f[i])
	}
	return converted
}

// microseconds turns something per second into the time of one.
func microseconds(rate float64) float64 { return 1e6 / rate }

// table is a table of the report.
type table struct {
	strings.Builder
}

func newTable(columns ...string) *table {
	t := &table{}
	t.row(columns...)
	t.WriteString("|---" + strings.Repeat("|--:", len(columns)-1) + "|\n")
	return t
}

func (t *table) row(cells ...string) {
	t.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// count writes a number with commas.
func count(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
