package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

const (
	// shortCooldown is short enough that as many cooldowns end as begin in each round but the first.
	shortCooldown = 250 * time.Millisecond
	// coolBlocks is how many blocks cool at once where their memory is measured.
	coolBlocks = 100_000
)

// cooldowns of the pools of this chapter. All others have none.
func cooldowns(b ledger.Block) (time.Duration, error) {
	switch b.Pool {
	case "cool":
		return shortCooldown, nil
	case "cold":
		return time.Hour, nil
	}
	return 0, nil
}

// cooldown is callers who bind a block and release it, with a cooldown and without.
func cooldown(ctx context.Context, opts *options, out io.Writer) (err error) {
	s, err := newStage(ctx, families[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for id, window := range map[ledger.PoolID]string{"cool": "11.0.0.0/8", "cold": "12.0.0.0/8"} {
		if err := s.register(ctx, id, netip.MustParsePrefix(window)); err != nil {
			return err
		}
	}
	leading, end := context.WithCancel(ctx)
	defer end()
	go func() { _ = s.Lead(leading, "") }()

	t := newTable("callers", "without, blocks/s", "with, blocks/s", "with ÷ without")
	for _, callers := range []int{1, 8, 64, 256} {
		var without, with figures
		for range opts.rounds {
			for _, turn := range []struct {
				pool ledger.PoolID
				into *figures
			}{{"pool", &without}, {"cool", &with}} {
				rate, err := during(opts.round(), callers, func() error { return s.thereAndBack(ctx, turn.pool) })
				if err != nil {
					return err
				}
				*turn.into = append(*turn.into, rate)
			}
		}
		t.row(count(callers), without.write("%.0f"), with.write("%.0f"), with.over(without).write("%.2f"))
	}
	end()
	held, cooling, err := s.coolingBytes(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "### With a cooldown\n\n%s\nA block is bound and released. With the cooldown, of %s, it is freed by a later transaction; "+
		"what cooled in the rounds before is freed in those that follow, without a cooldown, too. "+
		"Of %s blocks each takes %.0f bytes of the allocator's memory while it is bound, and %.0f while it cools.\n\n",
		t, shortCooldown, count(coolBlocks), held, cooling)
	return nil
}

// thereAndBack binds a block and releases it.
func (s *stage) thereAndBack(ctx context.Context, pool ledger.PoolID) error {
	b, err := s.Bind(ctx, s.request(pool))
	if err != nil {
		return err
	}
	return s.ReleaseFor(ctx, b, ledger.CauseReleased)
}

// coolingBytes returns how many bytes of memory a bound block takes, and one that cools.
func (s *stage) coolingBytes(ctx context.Context) (held, cooling float64, err error) {
	blocks := make(chan ledger.Block, coolBlocks)
	bind := func() error {
		b, err := s.Bind(ctx, s.request("cold"))
		blocks <- b
		return err
	}
	if _, err := spread(coolBlocks, maxTxnOps, bind); err != nil {
		return 0, 0, err
	}
	if held, err = s.bytes(ctx); err != nil {
		return 0, 0, err
	}
	if _, err := spread(coolBlocks, maxTxnOps, func() error { return s.ReleaseFor(ctx, <-blocks, ledger.CauseReleased) }); err != nil {
		return 0, 0, err
	}
	cooling, err = s.bytes(ctx)
	return held, cooling, err
}

// bytes opens the allocator again, and returns how many bytes that takes for each block.
func (s *stage) bytes(ctx context.Context) (float64, error) {
	if err := s.Close(); err != nil {
		return 0, err
	}
	s.Allocator = nil
	before := heap()
	if err := s.open(ctx); err != nil {
		return 0, err
	}
	return float64(heap()-before) / coolBlocks, nil
}
