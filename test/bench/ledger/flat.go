package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// openRounds is how often a full ledger is opened, beside a raw read each time.
const openRounds = 3

// flat measures while it fills a pool, and then while it opens the ledger again.
func flat(ctx context.Context, opts *options, out io.Writer) error {
	filling := newTable("blocks held", "callers", "µs a block", "raw µs a block", "÷ raw", "÷ raw, over that of the empty pool")
	opening := newTable("blocks in the ledger", "open, s", "raw read of the keys of blocks, s", "÷ raw", "bytes a block", "bytes of the database a block")
	for _, f := range families {
		if err := flatFamily(ctx, opts, f, filling, opening); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "### A pool that fills up\n\n%s\nRaw is measured at the same fill of the same etcd, whose own cost grows with its size.\n\n", filling)
	fmt.Fprintf(out, "### Opening\n\n%s\nOf a ledger in an etcd that is up, up to %d times. Bytes a block are the live heap that the allocator adds. "+
		"Raw is one request after the other, each for a million keys at most. A block has two keys: its own, and that of its claim, "+
		"which opening does not read.\n\n", opening, openRounds)
	return nil
}

func flatFamily(ctx context.Context, opts *options, f family, filling, opening *table) (err error) {
	s, err := newStage(ctx, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	empty, stored := map[int]float64{}, 0.0 // stored: bytes of the database for each block
	for _, fill := range []int{0, opts.blocks} {
		if stored, err = s.grow(ctx, fill); err != nil {
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
	return s.reopen(ctx, opts, opening, stored)
}

// grow fills the pool, and returns the bytes of etcd's database for each block.
func (s *stage) grow(ctx context.Context, blocks int) (float64, error) {
	before, err := s.client.Status(ctx, "")
	if err != nil {
		return 0, err
	}
	if err := s.fill(ctx, blocks); err != nil {
		return 0, err
	}
	after, err := s.client.Status(ctx, "")
	if err != nil {
		return 0, err
	}
	return float64(after.DbSizeInUse-before.DbSizeInUse) / float64(max(blocks, 1)), nil
}

// reopen measures how long an allocator takes to open, beside plain reads of the same keys.
func (s *stage) reopen(ctx context.Context, opts *options, t *table, stored float64) error {
	blocks := 0
	var opened, read, bytes figures
	for range min(opts.rounds, openRounds) {
		if err := s.Close(); err != nil {
			return err
		}
		s.Allocator = nil
		before, began := heap(), time.Now()
		if err := s.open(ctx); err != nil {
			return err
		}
		opened = append(opened, time.Since(began).Seconds())
		held, _ := s.Pools().Capacity("pool")
		blocks = held.Blocks
		bytes = append(bytes, float64(heap()-before)/float64(blocks))
		began = time.Now()
		if err := s.readBlocks(ctx); err != nil {
			return err
		}
		read = append(read, time.Since(began).Seconds())
	}
	t.row(count(blocks)+" "+s.family.name, opened.write("%.2f"), read.write("%.2f"), opened.over(read).write("%.2f"),
		bytes.write("%.0f"), fmt.Sprintf("%.0f", stored))
	return nil
}

// readBlocks reads the keys that an allocator reads when it opens.
func (s *stage) readBlocks(ctx context.Context) error {
	from, end := "/ipam/v1/spaces/", clientv3.GetPrefixRangeEnd("/ipam/v1/spaces/")
	for more := true; more; {
		resp, err := s.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(1_000_000))
		if err != nil {
			return err
		}
		if len(resp.Kvs) == 0 {
			return fmt.Errorf("the ledger has no keys from %s to %s: follow the allocator in how keys are written", from, end)
		}
		from, more = string(resp.Kvs[len(resp.Kvs)-1].Key)+"\x00", resp.More
	}
	return nil
}

// heap returns the number of bytes in live objects.
func heap() int64 {
	runtime.GC()
	runtime.GC() // frees the objects of finalizers that ran in the first one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
