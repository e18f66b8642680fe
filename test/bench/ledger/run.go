// Package ledger measures the allocator alone: beside raw etcd transactions of the same content and grouping, beside
// another library on the same etcd, with many pools, when a pool is full, when it opens, and beside callers whose
// requests fail. Everything is measured in short rounds that take turns with their baseline, so that other load of
// the machine affects both.
//
//	bench ledger [--rounds 7] [--round-seconds 0.5] [--blocks 1000000] [--only hot,peer] [--out docs/benchmarks.md]
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

// section is the part of the page that this program writes.
const section = "ledger"

// options are the flags of the program.
type options struct {
	rounds       int
	roundSeconds float64
	blocks       int
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
	{"pools", pools},
	{"peer", peer},
	{"flat", flat},
	{"rivals", rivals},
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
		if len(opts.only) > 0 && !slices.Contains(opts.only, c.name) {
			continue
		}
		say("%s", c.name)
		if err := c.write(ctx, opts, &text); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	say("done")
	return harness.Publish(opts.out, section, text.String())
}

func parse(args []string) (*options, error) {
	opts := &options{}
	f := pflag.NewFlagSet("ledger", pflag.ContinueOnError)
	f.IntVar(&opts.rounds, "rounds", 7, "how many times everything is measured")
	f.Float64Var(&opts.roundSeconds, "round-seconds", 0.5, "how long each measurement lasts")
	f.IntVar(&opts.blocks, "blocks", 1_000_000, "how many blocks the fullest pool holds")
	f.StringSliceVar(&opts.only, "only", nil, "the chapters to measure; empty: all")
	f.StringVar(&opts.out, "out", "", "the page to write the tables to; empty: stdout")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if opts.rounds < 1 || opts.roundSeconds <= 0 || opts.blocks < 1 {
		return nil, errors.New("give --rounds and --blocks at least 1, and --round-seconds more than 0")
	}
	return opts, nil
}

// figures are the results of a measurement, one for each round.
type figures []float64

// write returns the median of the figures and, in brackets, their quartiles.
func (f figures) write(format string) string { return page.Spread(format, f) }

func (f figures) quantile(q float64) float64 { return page.Quantile(f, q) }

// over divides each figure by that of the same round in base.
func (f figures) over(base figures) figures {
	ratios := make(figures, len(f))
	for i := range f {
		ratios[i] = f[i] / base[i]
	}
	return ratios
}

// each converts each figure.
func (f figures) each(convert func(float64) float64) figures {
	converted := make(figures, len(f))
	for i := range f {
		converted[i] = convert(f[i])
	}
	return converted
}

// microseconds converts a rate per second into the time of one event.
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
