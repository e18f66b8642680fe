package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
)

// contest has the results of the allocator and of raw transactions, which take turns.
type contest struct {
	bind, raw figures // blocks a second
	group     figures // binds a transaction
}

// play measures binds from one pool by a number of callers, and after each round raw transactions with the grouping
// of that round. It sends these one after the other, as the pool's worker does.
func (s *stage) play(ctx context.Context, opts *options, r *raw, callers int) (contest, error) {
	var c contest
	for range opts.rounds {
		before, err := s.groups()
		if err != nil {
			return c, err
		}
		bound, err := during(opts.round(), callers, func() error { return s.bind(ctx) })
		if err != nil {
			return c, err
		}
		after, err := s.groups()
		if err != nil {
			return c, err
		}
		size := max(1, math.Round(bound*opts.roundSeconds/(after-before)))
		groups, err := during(opts.round(), 1, func() error { return r.commit(ctx, int(size)) })
		if err != nil {
			return c, err
		}
		c.bind, c.raw, c.group = append(c.bind, bound), append(c.raw, groups*size), append(c.group, size)
	}
	return c, nil
}

// hot measures one pool that all callers ask. It begins empty.
func hot(ctx context.Context, opts *options, out io.Writer) (err error) {
	s, err := newStage(ctx, families[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	t := newTable("callers", "blocks/s", "raw blocks/s", "blocks a transaction", "rate ÷ raw", "µs a block ÷ raw")
	for _, callers := range []int{1, 8, 64, 256} {
		r, err := s.newRaw(ctx, fmt.Sprint("hot", callers))
		if err != nil {
			return err
		}
		c, err := s.play(ctx, opts, r, callers)
		if err != nil {
			return err
		}
		t.row(count(callers), c.bind.write("%.0f"), c.raw.write("%.0f"), c.group.write("%.0f"),
			c.bind.over(c.raw).write("%.2f"), c.raw.over(c.bind).write("%.2f"))
	}
	fmt.Fprintf(out, "### One hot pool\n\n%s\nRaw is etcd transactions of the same keys, values and comparisons, as many blocks in each as the allocator had in the round before, one in flight.\n\n", t)
	return nil
}
