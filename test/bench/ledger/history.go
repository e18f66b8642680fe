package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
)

// history is callers who bind a block and release it, with a history of the ledger and without.
func history(ctx context.Context, opts *options, out io.Writer) (err error) {
	without, err := newStage(ctx, families[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, without.close()) }()
	// The same ledger, and a writer of its own: they take turns, and never meet.
	with := &stage{client: without.client, family: families[0], history: 24 * time.Hour}
	if err := with.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, with.Close()) }()

	t := newTable("callers", "without, blocks/s", "with, blocks/s", "with ÷ without")
	for _, callers := range []int{1, 8, 64, 256} {
		var off, on figures
		for range opts.rounds {
			for _, turn := range []struct {
				s    *stage
				uids uint64
				into *figures
			}{{without, 0, &off}, {with, 1 << 40, &on}} {
				turn.s.claims.CompareAndSwap(0, turn.uids)
				rate, err := during(opts.round(), callers, func() error { return turn.s.thereAndBack(ctx, "pool") })
				if err != nil {
					return err
				}
				*turn.into = append(*turn.into, rate)
			}
		}
		t.row(count(callers), off.write("%.0f"), on.write("%.0f"), on.over(off).write("%.2f"))
	}
	records := 0
	_, err = allocator.Reader{Client: with.client}.Tenures(ctx, families[0].window, func(allocator.Tenure, error) bool {
		records++
		return true
	})
	fmt.Fprintf(out, "### With a history\n\n%s\nA block is bound and released. With a history, the release leaves a record; at the end there were %s.\n\n", t, count(records))
	return err
}
