// Package scale measures what more workspaces and more claims cost the controller: its
// memory, its start, its idling, and how long a claim takes. It binds more and more
// workspaces of a real kcp to the export, fills them with claims, and measures at every
// step the same, ipam-controller and then a bare controller (../bare) at its place.
//
//	bench scale [--workspaces 10,100] [--claims 5000] [--clients 1,8] [--out docs/benchmarks.md]
//
// The claims are those of the last step; each one before has its share by workspace.
// It starts everything itself, below .cache/, and takes it down again. Progress goes to
// stderr, the table to the page, or to stdout without --out.
package scale

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/pflag"

	"github.com/kcp-ipam/ipam/test/bench/harness"
)

// section is the part of the page that this program writes.
const section = "scale"

// options are the flags of the program.
type options struct {
	workspaces      []int
	claims          int
	clients         []int
	samples         int
	bare            bool
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
	steps, err := s.climb(ctx)
	if err := s.close(err); err != nil {
		return err
	}
	return harness.Publish(opts.out, section, report(opts, steps))
}

func parse(args []string) (*options, error) {
	opts := &options{}
	f := pflag.NewFlagSet("scale", pflag.ContinueOnError)
	f.IntSliceVar(&opts.workspaces, "workspaces", []int{10, 100}, "how many workspaces are bound, step by step")
	f.IntVar(&opts.claims, "claims", 5000, "how many claims there are at the last step")
	f.IntSliceVar(&opts.clients, "clients", []int{1, 8}, "how many clients claim side by side, each its next claim when the last is bound")
	f.IntVar(&opts.samples, "samples", 200, "how many claims are timed, for each number of clients at each step")
	f.BoolVar(&opts.bare, "bare", true, "measure the bare controller, too")
	f.StringVar(&opts.out, "out", "", "the page to write the tables to; empty: stdout")
	f.StringArrayVar(&opts.controllerFlags, "controller-flag", nil, "a further flag of ipam-controller")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if len(opts.workspaces) == 0 || opts.workspaces[0] < 1 || !slices.IsSorted(opts.workspaces) {
		return nil, errors.New("give --workspaces numbers that grow, like 10,100")
	}
	if len(opts.clients) == 0 || slices.Min(opts.clients) < 1 || opts.samples < slices.Max(opts.clients) {
		return nil, errors.New("give --clients numbers from 1 on, and --samples as many at least")
	}
	return opts, nil
}

// claimsAt is how many claims there are when this many workspaces are bound.
func (o *options) claimsAt(workspaces int) int {
	return o.claims * workspaces / slices.Max(o.workspaces)
}
