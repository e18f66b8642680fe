// Command soak has tenants create and delete claims for a quarter of an hour, while
// the replicas of ipam-controller, the members of the ledger's etcd, and kcp are killed
// and stopped, one after another by a seeded schedule. It exits with 1 if anything was
// wrong, or has grown by more than it may.
//
//	soak [--duration 15m] [--seed 1] [--workspaces 50] [--rate 6] [--out docs/benchmarks.md] [--samples soak.csv]
//
// The time is cut into rounds: first the tenants are at work and things are struck down,
// then there is calm. In each calm every tenant holds the same number of claims, ledger,
// records and claims are verified, and each process is measured, its memory after a
// collection of garbage. What is compared are the calms of the first third and those of
// the last: with the same claims held, whatever was gained in between was left behind.
// The first replica is never struck, so that what leaks has time to.
//
// All through it, the history of kcp's own etcd is checked: no two claims ever show a
// common address. In the end everything is deleted, and nothing may be left.
//
// It starts everything itself, below .cache/, and takes it down again. Progress goes to
// stderr, the tables to the page, or to stdout without --out, and all samples as CSV to
// the file of --samples.
//
//	stage     what runs                 tenant    who claims, and which claims
//	traffic   what they do, and when    fault     what is struck down
//	calm      rounds of work and calm   order     what is looked at in a calm
//	probe     what a process says       record    all that was seen
//	verdict   what has grown            report    tables         samples   CSV
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/kcp-ipam/ipam/test/bench/harness"
)

// options are the flags of the program.
type options struct {
	duration        time.Duration
	seed            uint64
	workspaces      int
	rate            float64
	hold            int
	rounds          int
	replicas        int
	sample          time.Duration
	keep            time.Duration
	out             string
	samples         string
	controllerFlags []string
}

func main() { harness.Main("soak", run) }

func run(ctx context.Context, args []string, say harness.Say) error {
	opts, err := parse(args)
	if err != nil {
		return err
	}
	s, err := newStage(ctx, opts, say)
	if err != nil {
		return err
	}
	found, err := s.play(ctx)
	if err == nil {
		err = found.publish()
	}
	if err == nil {
		err = found.verdict()
	}
	return s.close(err)
}

func parse(args []string) (*options, error) {
	opts := &options{}
	f := pflag.NewFlagSet("soak", pflag.ContinueOnError)
	f.DurationVar(&opts.duration, "duration", 15*time.Minute, "how long it lasts, without what it takes to begin and to end")
	f.Uint64Var(&opts.seed, "seed", 1, "fixes what is struck down when, and what each tenant claims")
	f.IntVar(&opts.workspaces, "workspaces", 50, "how many tenants there are")
	f.Float64Var(&opts.rate, "rate", 6, "how many claims all tenants together make in a second, and delete")
	f.IntVar(&opts.hold, "hold", 8, "how many claims each tenant holds")
	f.IntVar(&opts.rounds, "rounds", 6, "into how many rounds of work and calm the time is cut")
	f.IntVar(&opts.replicas, "replicas", 3, "how many replicas of ipam-controller there are; the first is never struck")
	f.DurationVar(&opts.sample, "sample", 5*time.Second, "how often the processes are looked at")
	f.DurationVar(&opts.keep, "keep", 15*time.Second, "how much history the ledger's etcd keeps")
	f.StringVar(&opts.out, "out", "", "the page to write the tables to; empty: stdout")
	f.StringVar(&opts.samples, "samples", "", "the file to write all samples to, as CSV; empty: none")
	f.StringArrayVar(&opts.controllerFlags, "controller-flag", nil, "a further flag of ipam-controller, like --leader-elect")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	return opts, opts.validate()
}

func (o *options) validate() error {
	switch {
	case o.workspaces < 1 || o.workspaces > mostTenants:
		return fmt.Errorf("--workspaces is %d; give it 1 to %d", o.workspaces, mostTenants)
	case o.rounds < 3:
		return fmt.Errorf("--rounds is %d; give it at least 3: the first third is compared with the last", o.rounds)
	case o.rate <= 0 || o.hold < 1 || o.replicas < 1 || o.sample <= 0 || o.keep <= 0:
		return errors.New("give --rate, --hold, --replicas, --sample and --keep something above 0")
	case o.duration < time.Duration(o.rounds)*leastRound:
		return fmt.Errorf("--duration is %s; give it at least %s for each of %d rounds", o.duration, leastRound, o.rounds)
	}
	return nil
}

// round is how long a round lasts.
func (o *options) round() time.Duration { return o.duration / time.Duration(o.rounds) }
