// Package fleet measures the cost of the controller at sizes that kcp cannot carry on one small machine. It uses a
// stand-in for kcp (test/fleet) with generated workspaces and claims, and a ledger that holds their blocks. It
// measures only cost: a stand-in proves no behaviour.
//
//	bench fleet [--workspaces 10,100,1000] [--claims 100000] [--out docs/benchmarks.md]
//
// Progress goes to stderr, the tables to the page, or to stdout without --out.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/bench/page"
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
	f.BoolVar(&opts.external, "external-etcd", false, "keep the ledger in an etcd beside the controller, and have a standby take over from it")
	f.StringVar(&opts.out, "out", "", "the page to write the tables to; empty: stdout")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if len(opts.workspaces) == 0 || len(opts.claims) == 0 {
		return nil, errors.New("give --workspaces and --claims at least one number each")
	}
	for i, n := range opts.workspaces {
		if n < 1 || opts.claims[min(i, len(opts.claims)-1)] < n || n <= shards {
			return nil, errors.New("give --workspaces more than 2 each, and --claims at least one for each of them")
		}
	}
	return opts, nil
}

// report returns the section of the page.
func report(opts *options, steps []*step) string {
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`\n\n%s. The machine runs the stand-in and the load, too.\n\n", command(opts), page.Machine())
	b.WriteString("| workspaces | claims | live heap MiB | resident MiB | live KiB per workspace | live KiB per claim | resident KiB per claim |\n")
	b.WriteString("|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, s := range steps {
		more := float64(s.claims - s.workspaces)
		fmt.Fprintf(&b, "| %d | %d | %.0f | %.0f | %.1f | %.2f | %.2f |\n", s.workspaces, s.claims,
			s.full.live/(1<<20), s.full.resident/(1<<20),
			(s.empty.live-s.one.live)/1024/float64(s.workspaces-shards),
			(s.full.live-s.empty.live)/1024/more, (s.full.resident-s.empty.resident)/1024/more)
	}
	b.WriteString("\n| workspaces | claims | start → CREATE is answered, s | start → a claim is bound, s | start → every claim seen, s | of a processor, s | requests until then | killed, started → CREATE is answered, s | a claim is bound, s | idle, % of a processor | sweep s | verification s | of a processor, s |\n")
	b.WriteString("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, s := range steps {
		fmt.Fprintf(&b, "| %d | %d | %.1f | %.1f | %.1f | %.1f | %d | %.1f | %.1f | %.1f | %.2f | %.1f | %.1f |\n", s.workspaces, s.claims, s.created.Seconds(), s.bound.Seconds(),
			s.seen.Seconds(), s.work, s.requests, s.createdAgain.Seconds(), s.again.Seconds(), s.idle*100, s.sweep, s.verification.Seconds(), s.verificationWork)
	}
	fmt.Fprintf(&b, "\n| workspaces | claims | a claim, %d clients: p50 ms | p95 ms | CPU ms |\n", clients)
	b.WriteString("|--:|--:|--:|--:|--:|\n")
	for _, s := range steps {
		fmt.Fprintf(&b, "| %d | %d | %.1f | %.1f | %.1f |\n", s.workspaces, s.claims, ms(s.p50), ms(s.p95), s.cpu*1000)
	}
	if !opts.external {
		return b.String()
	}
	b.WriteString("\n| workspaces | claims | leader killed: no answer to CREATE, s | leader stopped: no answer to CREATE, s |\n")
	b.WriteString("|--:|--:|--:|--:|\n")
	for _, s := range steps {
		fmt.Fprintf(&b, "| %d | %d | %.1f | %.1f |\n", s.workspaces, s.claims, s.killed.Seconds(), s.stopped.Seconds())
	}
	return b.String()
}

// command returns the command that makes these tables again.
func command(opts *options) string {
	numbers := func(n []int) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint(n), " ", ","), "[]") }
	line := fmt.Sprintf("go run ./test/bench fleet --workspaces %s --claims %s", numbers(opts.workspaces), numbers(opts.claims))
	if opts.external {
		line += " --external-etcd"
	}
	return line
}
