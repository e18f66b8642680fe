// Package kcp measures through a real kcp how long a claim takes to have its CIDR,
// and how many are answered in a second. Beside ipam-controller runs a bare controller
// (../bare) on the same kcp, with tenants of its own, that only makes the same two
// writes: once with the fewest fields, once with all. They take turns in short rounds,
// one working while the others idle, so that what the machine does besides falls on all.
//
//	bench kcp [--rounds 10] [--round-seconds 2] [--clients 1,8,32,128] [--out docs/benchmarks.md]
//
// It starts everything itself, below .cache/, and takes it down again. Progress goes to
// stderr, the table to the page, or to stdout without --out.
package kcp

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/spf13/pflag"

	"github.com/kcp-ipam/ipam/test/bench/harness"
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
	f.IntSliceVar(&opts.clients, "clients", []int{1, 8, 32, 128}, "how many clients claim side by side, each its next claim when the last is answered")
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
