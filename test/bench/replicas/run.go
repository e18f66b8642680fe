// Package replicas measures how long claims are not served when the active controller goes away. On one kcp, and one
// etcd of three members, it compares two teams, each with a platform workspace and tenants of its own: a single
// controller, and three controllers with one leader.
//
//	bench replicas [--failovers 7] [--held 2000] [--out docs/benchmarks.md]
//
// It starts everything itself, below .cache/, and takes it down again. Progress goes to
// stderr, the tables to the page, or to stdout without --out.
package replicas

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/bench/page"
	"github.com/kcp-ipam/ipam/test/framework/local"
)

// section is the part of the page that this program writes.
const section = "replicas"

// options are the flags of the program.
type options struct {
	failovers, held int
	out             string
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
	losses, err := s.fail(ctx)
	if err := s.close(err); err != nil {
		return err
	}
	return harness.Publish(opts.out, section, report(opts, losses))
}

func parse(args []string) (*options, error) {
	opts := &options{}
	f := pflag.NewFlagSet("replicas", pflag.ContinueOnError)
	f.IntVar(&opts.failovers, "failovers", 7, "how many times each way to lose the leader is measured")
	f.IntVar(&opts.held, "held", 2000, "how many claims are held while the leader is lost; its successor has to look at all")
	f.StringVar(&opts.out, "out", "", "the page to write the tables to; empty: stdout")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if opts.failovers < 1 || opts.held < 0 {
		return nil, errors.New("give --failovers at least 1, and --held no less than 0")
	}
	return opts, nil
}

// report returns the section of the page.
func report(opts *options, losses []*loss) string {
	var b strings.Builder
	fmt.Fprintf(&b, "`go run ./test/bench replicas --failovers %d --held %d`\n\n", opts.failovers, opts.held)
	fmt.Fprintf(&b, "%s; kcp %s with its etcd, and the three members, on the same machine. ", page.Machine(), local.KCPVersion())
	fmt.Fprintf(&b, "With %d claims held, %d times each; medians, quartiles in brackets.\n\n", opts.held, opts.failovers)
	b.WriteString("| the active replica is lost | seconds without an answer to CREATE | longest | seconds without a record | longest |\n|---|--:|--:|--:|--:|\n")
	for _, l := range losses {
		answers, records := make([]float64, len(l.gaps)), make([]float64, len(l.gaps))
		for i, gap := range l.gaps {
			answers[i], records[i] = gap.answer, gap.record
		}
		fmt.Fprintf(&b, "| %s | %s | %.2f | %s | %.2f |\n", l.name, page.Spread("%.2f", answers), page.Quantile(answers, 1),
			page.Spread("%.2f", records), page.Quantile(records, 1))
	}
	return b.String()
}
