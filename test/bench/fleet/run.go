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
	workspaces      []int
	claims          []int
	shards          int
	samples         int
	leaving         int
	resting         time.Duration
	binary          string
	external        bool
	out             string
	controllerFlags []string
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
	f.IntVar(&opts.shards, "shards", 2, "how many endpoints show the workspaces")
	f.IntVar(&opts.samples, "samples", 500, "how many claims are made and timed, by 8 clients, at each step")
	f.IntVar(&opts.leaving, "leaving", 5, "how many workspaces leave in the end")
	f.DurationVar(&opts.resting, "resting", time.Minute, "how long the idle controller is measured")
	f.StringVar(&opts.binary, "binary", "", "an ipam-controller to measure in place of the one that is built")
	f.BoolVar(&opts.external, "external-etcd", false, "keep the ledger in an etcd beside the controller, which goes on when that is started again")
	f.StringVar(&opts.out, "out", "", "the page to write the tables to; empty: stdout")
	f.StringArrayVar(&opts.controllerFlags, "controller-flag", nil, "a further flag of ipam-controller")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if len(opts.workspaces) == 0 || len(opts.claims) == 0 {
		return nil, errors.New("give --workspaces and --claims at least one number each")
	}
	for i, n := range opts.workspaces {
		if n < 1 || opts.claims[min(i, len(opts.claims)-1)] < n || opts.leaving >= n || opts.shards > n {
			return nil, errors.New("give --workspaces more than --leaving and --shards, and --claims at least one for each of them")
		}
	}
	return opts, nil
}
