package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// history is callers who bind a block and release it, in a ledger that keeps a history and in one
// that does not, side by side in one etcd.
func history(ctx context.Context, opts *options, out io.Writer) (err error) {
	without, err := newStage(ctx, families[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, without.close()) }()
	with := &stage{client: without.client, family: families[0], prefix: "/kept/v1", history: 24 * time.Hour}
	if err := with.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, with.Close()) }()
	if err := with.register(ctx, "pool", families[0].window); err != nil {
		return err
	}

	t := newTable("callers", "without, blocks/s", "with, blocks/s", "with ÷ without", "without, CPU µs a block", "with, CPU µs a block", "without ÷ with")
	for _, callers := range []int{1, 8, 64, 256} {
		var off, on, offCPU, onCPU figures
		type turn struct {
			s          *stage
			rates, cpu *figures
		}
		turns := []turn{{without, &off, &offCPU}, {with, &on, &onCPU}}
		for range opts.rounds {
			slices.Reverse(turns) // what one leaves to the other falls on both
			for _, turn := range turns {
				rate, micros, err := costs(opts.round(), callers, func() error { return turn.s.thereAndBack(ctx, "pool") })
				if err != nil {
					return err
				}
				*turn.rates, *turn.cpu = append(*turn.rates, rate), append(*turn.cpu, micros)
			}
		}
		t.row(count(callers), off.write("%.0f"), on.write("%.0f"), on.over(off).write("%.2f"), offCPU.write("%.0f"), onCPU.write("%.0f"), offCPU.over(onCPU).write("%.2f"))
	}
	records := 0
	_, err = allocator.Reader{Client: with.client, Prefix: with.prefix}.Tenures(ctx, families[0].window, func(ledger.Tenure, error) bool {
		records++
		return true
	})
	fmt.Fprintf(out, "### With a history\n\n%s\nA block is bound and released. With a history, the release leaves a record; at the end there were %s.\n\n", t, count(records))
	return err
}

// cpuTime is what this process has used of the processors so far. On a machine that others use,
// it says more than how long something took.
func cpuTime() (time.Duration, error) {
	var used syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), err
}

// costs runs f from some callers for a while, and returns how often a second, and the time of the
// processors for each, in microseconds.
func costs(d time.Duration, callers int, f func() error) (rate, micros float64, err error) {
	before, err := cpuTime()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if rate, err = during(d, callers, f); err != nil {
		return 0, 0, err
	}
	steps := rate * time.Since(began).Seconds()
	after, err := cpuTime()
	return rate, float64((after - before).Microseconds()) / steps, err
}
