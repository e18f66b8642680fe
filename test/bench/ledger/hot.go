package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// contest is the allocator and raw transactions in turn.
type contest struct {
	bind, raw figures // blocks a second
	group     figures // binds a transaction
}

// play measures binds of one pool by some callers, and then raw transactions of
// the grouping that came of it, one after the other as the pool's worker sends
// them.
func (s *stage) play(ctx context.Context, opts *options, r *raw, callers int) (contest, error) {
	var c contest
	for range opts.rounds {
		before, _, err := s.groups()
		if err != nil {
			return c, err
		}
		bound, err := during(opts.round(), callers, func() error { return s.bind(ctx, "pool") })
		if err != nil {
			return c, err
		}
		after, _, err := s.groups()
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

// hot is one pool that everybody asks, from empty.
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

// flat is a pool that fills up.
func flat(ctx context.Context, opts *options, out io.Writer) error {
	filling := newTable("blocks held", "callers", "µs a block", "raw µs a block", "÷ raw", "÷ raw, over that of the empty pool")
	for _, f := range families {
		if err := flatFamily(ctx, opts, f, filling); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "### A pool that fills up\n\n%s\nRaw is measured at the same fill of the same etcd, whose own cost grows with its size.\n\n", filling)
	return nil
}

func flatFamily(ctx context.Context, opts *options, f family, filling *table) (err error) {
	s, err := newStage(ctx, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	fills := slices.DeleteFunc([]int{0, 10_000, 100_000}, func(n int) bool { return n >= opts.blocks })
	empty := map[int]float64{}
	for _, fill := range append(fills, opts.blocks) {
		if err := s.fill(ctx, fill); err != nil {
			return err
		}
		for _, callers := range []int{1, 64} {
			r, err := s.newRaw(ctx, fmt.Sprint("flat", fill, "-", callers))
			if err != nil {
				return err
			}
			c, err := s.play(ctx, opts, r, callers)
			if err != nil {
				return err
			}
			ratio := c.raw.over(c.bind)
			if fill == 0 {
				empty[callers] = ratio.quantile(0.5)
			}
			relative := ratio.each(func(x float64) float64 { return x / empty[callers] })
			filling.row(count(fill)+" "+f.name, count(callers), c.bind.each(microseconds).write("%.1f"), c.raw.each(microseconds).write("%.1f"),
				ratio.write("%.2f"), relative.write("%.2f"))
		}
	}
	return nil
}

// manyPools measures one caller that asks many pools in turn.
func manyPools(ctx context.Context, opts *options, out io.Writer) (err error) {
	s, err := newStage(ctx, families[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r, err := s.newRaw(ctx, "pools")
	if err != nil {
		return err
	}
	t := newTable("pools", "µs a block", "raw µs a block", "÷ raw", "÷ raw, over that of one pool")
	registered, one := 0, 0.0
	for _, pools := range []int{1, 100, 10_000} {
		for ; registered < pools; registered++ {
			window := netip.PrefixFrom(netip.AddrFrom4([4]byte{16 + byte(registered>>10), byte(registered >> 2), byte(registered << 6), 0}), 18)
			if err := s.register(ctx, poolID(registered), window); err != nil {
				return err
			}
		}
		bound, raws, err := s.inTurn(ctx, opts, r, pools)
		if err != nil {
			return err
		}
		ratio := raws.over(bound)
		if pools == 1 {
			one = ratio.quantile(0.5)
		}
		t.row(count(pools), bound.each(microseconds).write("%.0f"), raws.each(microseconds).write("%.0f"), ratio.write("%.2f"),
			ratio.each(func(x float64) float64 { return x / one }).write("%.2f"))
	}
	fmt.Fprintf(out, "### Many pools\n\n%s\nOne caller asks all pools in turn; raw is one transaction of one block.\n\n", t)
	return nil
}

func poolID(n int) ledger.PoolID { return ledger.PoolID(fmt.Sprintf("pool-%05d", n)) }

// inTurn measures binds of pools in turn, and raw transactions.
func (s *stage) inTurn(ctx context.Context, opts *options, r *raw, pools int) (bound, raws figures, err error) {
	next := 0
	for range opts.rounds {
		b, err := during(opts.round(), 1, func() error {
			next++
			return s.bind(ctx, poolID(next%pools))
		})
		if err != nil {
			return nil, nil, err
		}
		w, err := during(opts.round(), 1, func() error { return r.commit(ctx, 1) })
		if err != nil {
			return nil, nil, err
		}
		bound, raws = append(bound, b), append(raws, w)
	}
	return bound, raws, nil
}
