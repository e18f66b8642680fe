// Package ledger measures the allocator alone: what it costs beside raw etcd
// transactions of the same content and grouping, beside another library on the
// same etcd, when pools are full and many, when it opens and lists, with a cooldown, with a history, in a storm, and what
// the index costs by itself. Everything is measured in short rounds that take
// turns with their baseline, so that what the machine does besides falls on both.
//
//	bench ledger [--rounds 7] [--round-seconds 0.5] [--blocks 1000000] [--only hot,peer] [--out docs/benchmarks.md]
//	bench ledger --only open [--open 1000000,5000000] [--out docs/benchmarks.md]
//
// Progress goes to stderr, the tables to the page, or to stdout without --out.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/bench/page"
)

const (
	// section is the part of the page that this program writes.
	section = "ledger"
	// opening is the chapter that has a section of its own: it is measured when it is named, and alone.
	opening = "open"
)

// options are the flags of the program.
type options struct {
	rounds       int
	roundSeconds float64
	blocks       int
	open         []int
	only         []string
	out          string
}

func (o *options) round() time.Duration {
	return time.Duration(o.roundSeconds * float64(time.Second))
}

// chapters are the parts of the report, in their order.
var chapters = []struct {
	name  string
	write func(context.Context, *options, io.Writer) error
}{
	{"hot", hot},
	{"cooldown", cooldown},
	{"history", history},
	{"peer", peer},
	{"flat", flat},
	{opening, open},
	{"lists", lists},
	{"pools", manyPools},
	{"fair", fair},
	{"rivals", rivals},
	{"index", indexAlone},
}

// Run measures and publishes, as the flags in args say.
func Run(ctx context.Context, args []string, say harness.Say) error {
	opts, err := parse(args)
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "`go run ./test/bench ledger %s`", strings.Join(args, " "))
	fmt.Fprintf(&text, "\n\n%s; etcd with fsync, 2,048 operations a transaction. Medians of %d rounds of %g s, quartiles in brackets; ratios are of neighbouring rounds.\n\n",
		page.Machine(), opts.rounds, opts.roundSeconds)
	for _, c := range chapters {
		if !opts.measures(c.name) {
			continue
		}
		say("%s", c.name)
		if err := c.write(ctx, opts, &text); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	say("done")
	if opts.measures(opening) {
		return harness.Publish(opts.out, section+"-"+opening, text.String())
	}
	return harness.Publish(opts.out, section, text.String())
}

// measures reports whether a chapter is to be measured.
func (o *options) measures(chapter string) bool {
	if len(o.only) == 0 {
		return chapter != opening
	}
	return slices.Contains(o.only, chapter)
}

func parse(args []string) (*options, error) {
	opts := &options{}
	f := pflag.NewFlagSet("ledger", pflag.ContinueOnError)
	f.IntVar(&opts.rounds, "rounds", 7, "how many times everything is measured")
	f.Float64Var(&opts.roundSeconds, "round-seconds", 0.5, "how long each measurement lasts")
	f.IntVar(&opts.blocks, "blocks", 1_000_000, "how many blocks the fullest pool holds")
	f.IntSliceVar(&opts.open, "open", []int{1_000_000}, "how many blocks the ledgers hold that are opened, the fewest first")
	f.StringSliceVar(&opts.only, "only", nil, "the chapters to measure; empty: all but open, which is measured alone")
	f.StringVar(&opts.out, "out", "", "the page to write the tables to; empty: stdout")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if opts.rounds < 1 || opts.roundSeconds <= 0 || opts.blocks < 1 {
		return nil, errors.New("give --rounds and --blocks at least 1, and --round-seconds more than 0")
	}
	if !slices.IsSorted(opts.open) || len(opts.open) == 0 || opts.open[0] < 1 {
		return nil, errors.New("give --open numbers of blocks of at least 1, the fewest first")
	}
	if slices.Contains(opts.only, opening) && len(opts.only) > 1 {
		return nil, errors.New("measure --only open alone: it has a part of the page of its own")
	}
	return opts, nil
}

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
