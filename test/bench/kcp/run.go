// Package kcp measures through a real kcp how long a claim takes to get its CIDR, and how many claims are answered in
// a second. Beside ipam-controller, a bare controller (../bare) runs on the same kcp, with tenants of its own; it
// only makes the same two writes. They take turns in short rounds, in which one works while the others idle, so that
// other load of the machine affects all.
//
//	bench kcp [--rounds 10] [--round-seconds 2] [--clients 1,8,32] [--out docs/benchmarks.md]
//
// It starts everything itself, below .cache/, and takes it down again. Progress goes to
// stderr, the table to the page, or to stdout without --out.
package kcp

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/bench/page"
	"github.com/kcp-ipam/ipam/test/framework/local"
)

// section is the part of the page that this program writes.
const section = "kcp"

// options are the flags of the program.
type options struct {
	rounds          int
	roundSeconds    float64
	clients         []int
	only            *regexp.Regexp
	out             string
	controllerFlags []string
}

// Run measures and publishes, as the flags in args say.
func Run(ctx context.Context, args []string, say harness.Say) error {
	opts, err := parse(args)
	if err != nil {
		return err
	}
	s, err := newStage(ctx, opts, say)
	if err != nil {
		return err
	}
	contests, err := s.play(ctx, opts)
	if err := s.close(err); err != nil {
		return err
	}
	return harness.Publish(opts.out, section, report(opts, contests))
}

func parse(args []string) (*options, error) {
	opts := &options{}
	f := pflag.NewFlagSet("kcp", pflag.ContinueOnError)
	f.IntVar(&opts.rounds, "rounds", 10, "how many times everything is measured; with 1 it says only that it works")
	f.Float64Var(&opts.roundSeconds, "round-seconds", 2, "how long each measurement lasts")
	f.IntSliceVar(&opts.clients, "clients", []int{1, 8, 32}, "how many clients claim side by side, each its next claim when the last is answered")
	f.StringVar(&opts.out, "out", "", "the page to write the table to; empty: stdout")
	f.StringArrayVar(&opts.controllerFlags, "controller-flag", nil, "a further flag of ipam-controller, like --pprof-bind-address=127.0.0.1:6060")
	only := f.String("only", "", "measure just the contests whose title, as in the table's first column, matches this expression")
	err := f.Parse(args)
	if err != nil {
		return nil, err
	}
	if opts.only, err = regexp.Compile(*only); err != nil {
		return nil, fmt.Errorf("--only: %w", err)
	}
	if opts.rounds < 1 || opts.roundSeconds <= 0 {
		return nil, errors.New("give --rounds at least 1, and --round-seconds more than 0")
	}
	for _, n := range opts.clients {
		if n < 1 {
			return nil, fmt.Errorf("--clients says %d; give it at least 1", n)
		}
	}
	return opts, nil
}

func (o *options) round() time.Duration {
	return time.Duration(o.roundSeconds * float64(time.Second))
}

// figures are the columns of the table, in their order.
var figures = []struct {
	name   string
	of     func(round) float64
	format string
}{
	{"answers/s", func(r round) float64 { return r.rate }, "%.0f"},
	{"p50 ms", func(r round) float64 { return r.p50 }, "%.1f"},
	{"p95 ms", func(r round) float64 { return r.p95 }, "%.1f"},
	{"p99 ms", func(r round) float64 { return r.p99 }, "%.1f"},
	{"controller CPU ms", func(r round) float64 { return r.controller }, "%.1f"},
	{"kcp CPU ms", func(r round) float64 { return r.kcp }, "%.1f"},
	{"records behind", func(r round) float64 { return r.backlog }, "%.0f"},
	{"behind for ms", func(r round) float64 { return r.drained }, "%.0f"},
}

// report returns the section of the page.
func report(opts *options, contests []contest) string {
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`", command(opts))
	fmt.Fprintf(&b, "\n\n%s; kcp %s with its etcd on the same machine. ", page.Machine(), local.KCPVersion())
	fmt.Fprintf(&b, "Medians of %d rounds of %g s, quartiles in brackets; ratios are of neighbouring rounds.\n\n", opts.rounds, opts.roundSeconds)
	b.WriteString("| clients | create → |")
	for _, figure := range figures {
		fmt.Fprintf(&b, " %s |", figure.name)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("--:|", len(figures)) + "\n")
	for _, c := range contests {
		c.write(&b)
	}
	return b.String()
}

// write adds the rows of a contest to the table.
func (c contest) write(b *strings.Builder) {
	for _, who := range c.contestants {
		fmt.Fprintf(b, "| %s | %s |", c.title, who.name)
		for _, figure := range figures {
			values := make([]float64, len(who.rounds))
			for i, round := range who.rounds {
				values[i] = figure.of(round)
			}
			fmt.Fprintf(b, " %s |", page.Spread(figure.format, values))
		}
		b.WriteString("\n")
	}
	for _, r := range c.ratios {
		fmt.Fprintf(b, "| %s | **%s** |", c.title, r.name)
		of, to := c.contestants[r.of].rounds, c.contestants[r.to].rounds
		for _, figure := range figures {
			fmt.Fprintf(b, " %s |", quotients(of, to, figure.of))
		}
		b.WriteString("\n")
	}
}

// quotients returns the ratios of a figure, round by round; a dash if a divisor is zero.
func quotients(of, to []round, figure func(round) float64) string {
	values := make([]float64, len(of))
	for i := range of {
		if figure(to[i]) == 0 {
			return "–"
		}
		values[i] = figure(of[i]) / figure(to[i])
	}
	return page.Spread("%.2f", values)
}

// command returns the command that makes this table again.
func command(opts *options) string {
	clients := strings.Trim(strings.ReplaceAll(fmt.Sprint(opts.clients), " ", ","), "[]")
	line := fmt.Sprintf("go run ./test/bench kcp --rounds %d --round-seconds %g --clients %s", opts.rounds, opts.roundSeconds, clients)
	if only := opts.only.String(); only != "" {
		line += fmt.Sprintf(" --only '%s'", only)
	}
	return line
}
