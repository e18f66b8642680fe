// Command bench measures through a real kcp how long a claim takes to have its CIDR,
// and how many are answered in a second. Beside ipam-controller runs a bare controller
// (./bare) on the same kcp, with tenants of its own, that only makes the same two
// writes: once with the fewest fields, once with all. They take turns in short rounds,
// one working while the others idle, so that what the machine does besides falls on all.
//
//	bench [--rounds 10] [--round-seconds 2] [--clients 1,8,32,128] [--out docs/benchmarks.md]
//
// It starts everything itself, below .cache/, and takes it down again. Progress goes to
// stderr, the table to the page, or to stdout without --out.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/test/bench/page"
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
	date            string
	controllerFlags []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the program at once
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	opts, err := parse(args)
	if err != nil {
		return err
	}
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(progress, "%6.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	s, err := newStage(ctx, opts, say)
	if err != nil {
		return err
	}
	contests, err := s.play(ctx, opts)
	if err := errors.Join(err, s.close(err)); err != nil {
		return err
	}
	text := report(opts, contests)
	if opts.out == "" {
		_, err := io.WriteString(out, text)
		return err
	}
	return page.Write(opts.out, section, text)
}

func parse(args []string) (*options, error) {
	opts := &options{}
	f := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	f.IntVar(&opts.rounds, "rounds", 10, "how many times everything is measured; with 1 it says only that it works")
	f.Float64Var(&opts.roundSeconds, "round-seconds", 2, "how long each measurement lasts")
	f.IntSliceVar(&opts.clients, "clients", []int{1, 8, 32, 128}, "how many clients claim side by side, each its next claim when the last is answered")
	f.StringVar(&opts.out, "out", "", "the page to write the table to; empty: stdout")
	f.StringVar(&opts.date, "date", "", "a date to be written beside the table")
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
