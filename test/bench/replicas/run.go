// Package replicas measures what several controllers bring and cost, and for how long
// nobody works when the one that does goes away. On one kcp, and one etcd of three
// members, it compares teams, each with a platform workspace and tenants of its own:
// one controller, and three with one that leads.
//
//	bench replicas [--rounds 10] [--round-seconds 3] [--clients 1,32] [--failovers 7] [--out docs/benchmarks.md]
//
// It starts everything itself, below .cache/, and takes it down again. Progress goes to
// stderr, the tables to the page, or to stdout without --out.
package replicas

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/kcp-ipam/ipam/test/bench/harness"
)

// section is the part of the page that this program writes.
const section = "replicas"

// options are the flags of the program.
type options struct {
	rounds       int
	roundSeconds float64
	clients      []int
	failovers    int
	held         int
	out          string
	date         string
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
	result, err := s.measure(ctx)
	if err := s.close(err); err != nil {
		return err
	}
	return harness.Publish(opts.out, section, result.report(opts))
}

func parse(args []string) (*options, error) {
	opts := &options{}
	f := pflag.NewFlagSet("replicas", pflag.ContinueOnError)
	f.IntVar(&opts.rounds, "rounds", 10, "how many times the work is measured")
	f.Float64Var(&opts.roundSeconds, "round-seconds", 3, "how long each measurement of the work lasts")
	f.IntSliceVar(&opts.clients, "clients", []int{1, 32}, "how many clients claim side by side, each its next claim when the last is answered")
	f.IntVar(&opts.failovers, "failovers", 7, "how many times each way to lose the leader is measured")
	f.IntVar(&opts.held, "held", 2000, "how many claims are held while the leader is lost; its successor has to look at all")
	f.StringVar(&opts.out, "out", "", "the page to write the tables to; empty: stdout")
	f.StringVar(&opts.date, "date", "", "a date to be written beside the tables")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if opts.rounds < 1 || opts.failovers < 1 || opts.roundSeconds <= 0 || opts.held < 0 {
		return nil, errors.New("give --rounds and --failovers at least 1, --round-seconds more than 0 and --held no less than that")
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
