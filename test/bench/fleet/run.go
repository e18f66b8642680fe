// Package fleet measures what the controller costs at sizes that kcp cannot carry on one small
// machine: against a stand-in for kcp (test/fleet) with generated workspaces and claims, and a
// ledger that holds their blocks. It measures cost alone; no behaviour is proven on a stand-in.
//
//	bench fleet [--workspaces 10,100,1000] [--claims 100000] [--out docs/benchmarks.md]
//
// Progress goes to stderr, the tables to the page, or to stdout without --out.
package fleet

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/kcp-ipam/ipam/test/bench/harness"
)

// section is the part of the page that this program writes.
const section = "fleet"

// options are the flags of the program.
type options struct {
	workspaces []int
	claims     []int
	resting    time.Duration
	external   bool
	out        string
}

// Run measures and publishes, as the flags in args say.
func Run(ctx context.Context, args []string, say harness.Say) error {
	opts, err := parse(args)
	if err != nil {
		return err
	}
	var steps []*step
	for i, workspaces := range opts.workspaces {
		st := &step{workspaces: workspaces, claims: opts.claims[min(i, len(opts.claims)-1)]}
		if err := measure(ctx, opts, st, say); err != nil {
			return err
		}
		steps = append(steps, st)
	}
	return harness.Publish(opts.out, section, report(opts, steps))
}

func parse(args []string) (*options, error) {
	opts := &options{}
	f := pflag.NewFlagSet("fleet", pflag.ContinueOnError)
	f.IntSliceVar(&opts.workspaces, "workspaces", []int{10, 100, 1000}, "how many workspaces there are, step by step")
	f.IntSliceVar(&opts.claims, "claims", []int{100_000}, "how many bound claims there are at each step; the last counts for further steps")
	f.DurationVar(&opts.resting, "resting", time.Minute, "how long the idle controller is measured")
	f.BoolVar(&opts.external, "external-etcd", false, "keep the ledger in an etcd beside the controller, which goes on when that is started again")
	f.StringVar(&opts.out, "out", "", "the page to write the tables to; empty: stdout")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if len(opts.workspaces) == 0 || len(opts.claims) == 0 {
		return nil, errors.New("give --workspaces and --claims at least one number each")
	}
	for i, n := range opts.workspaces {
		if n < 1 || opts.claims[min(i, len(opts.claims)-1)] < n || leaving >= n {
			return nil, errors.New("give --workspaces more than 5 each, and --claims at least one for each of them")
		}
	}
	return opts, nil
}
