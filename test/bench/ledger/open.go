package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// openRounds is how often a ledger is opened, beside a raw read each time.
const openRounds = 3

// open is a ledger that is opened with more and more blocks, beside raw reads. Pools of hosts have all the numbers of
// blocks that the flags name, one of /64s has the least.
func open(ctx context.Context, opts *options, out io.Writer) error {
	times := newTable("blocks in the ledger", "open, s", "raw read of all keys, s", "÷ raw", "raw read of the keys of blocks, s", "÷ raw", "bytes a block")
	sizes := newTable("blocks in the ledger", "MiB of the database in use", "bytes a block", "blocks per GiB")
	for _, f := range families {
		fills := opts.open
		if f != families[0] {
			fills = fills[:1]
		}
		if err := openFamily(ctx, opts, f, fills, times, sizes); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "### Opening\n\n%s\nOf a ledger in an etcd that is up, up to %d times. The bytes are the live heap that the allocator adds. "+
		"Raw is one request after the other, each for a million keys at most. Opening reads the keys of blocks, and not those of claims.\n\n", times, openRounds)
	fmt.Fprintf(out, "### Size\n\n%s\nThe database of the embedded etcd. A block has two keys: its own, and that of its claim.\n\n", sizes)
	return nil
}

func openFamily(ctx context.Context, opts *options, f family, fills []int, times, sizes *table) (err error) {
	s, err := newStage(ctx, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r, err := s.newRaw(ctx, "open")
	if err != nil {
		return err
	}
	for _, fill := range fills {
		if err := s.Close(); err != nil {
			return err
		}
		if err := r.fill(ctx, fill); err != nil {
			return err
		}
		if err := s.reopen(ctx, opts, times); err != nil {
			return err
		}
		status, err := s.client.Status(ctx, "")
		if err != nil {
			return err
		}
		bytes := float64(status.DbSizeInUse)
		sizes.row(count(fill)+" "+f.name, fmt.Sprintf("%.0f", bytes/(1<<20)), fmt.Sprintf("%.0f", bytes/float64(fill)),
			count(int(float64(fill)/bytes*(1<<30))))
	}
	return nil
}

// fill writes blocks into the ledger as binds write them, until it has so many. No allocator is open.
func (r *raw) fill(ctx context.Context, blocks int) error {
	for r.filled < blocks {
		var puts []clientv3.Op
		for ; r.filled < blocks && len(puts) < maxTxnOps-1; r.filled++ {
			p, claim := r.family.block(r.filled), uid(1<<61+uint64(r.filled))
			puts = append(puts,
				clientv3.OpPut("/ipam/v1/spaces/pool/blocks/"+written(p), strings.Replace(r.pattern.block, r.pattern.claim, claim, 1)),
				clientv3.OpPut("/ipam/v1/claims/"+claim, strings.Replace(r.pattern.claims, r.pattern.prefix.String(), p.String(), 1)))
		}
		if _, err := r.client.Txn(ctx).Then(puts...).Commit(); err != nil {
			return err
		}
	}
	return nil
}

// block returns the n-th block of the pool.
func (f family) block(n int) netip.Prefix {
	addr := f.window.Addr().As16()
	shift := 128 - f.length
	if f.window.Addr().Is4() {
		shift = 32 - f.length
	}
	if shift < 64 {
		binary.BigEndian.PutUint64(addr[8:], binary.BigEndian.Uint64(addr[8:])+uint64(n)<<shift)
	} else {
		binary.BigEndian.PutUint64(addr[:], binary.BigEndian.Uint64(addr[:])+uint64(n)<<(shift-64))
	}
	return netip.PrefixFrom(netip.AddrFrom16(addr).Unmap(), f.length)
}

// reopen measures an allocator that opens, beside plain reads of the whole ledger and of what it reads.
func (s *stage) reopen(ctx context.Context, opts *options, t *table) error {
	blocks := 0
	var opened, all, read, bytes figures
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
		if err := s.readBlocks(ctx, blocks); err != nil {
			return err
		}
		read = append(read, time.Since(began).Seconds())
		if err := s.readClaims(ctx, blocks); err != nil {
			return err
		}
		all = append(all, time.Since(began).Seconds())
	}
	t.row(count(blocks)+" "+s.family.name, opened.write("%.2f"), all.write("%.2f"), opened.over(all).write("%.2f"),
		read.write("%.2f"), opened.over(read).write("%.2f"), bytes.write("%.0f"))
	return nil
}

// atOnce is how many keys a raw request reads at most.
const atOnce = 1_000_000

// readClaims reads the keys of claims. Those of more than a million are read by the first digit of their UIDs.
func (s *stage) readClaims(ctx context.Context, blocks int) error {
	digits := []string{""}
	if blocks > atOnce {
		digits = strings.Split("0123456789abcdef", "")
	}
	got := 0
	for _, digit := range digits {
		resp, err := s.client.Get(ctx, "/ipam/v1/claims/"+digit, clientv3.WithPrefix())
		if err != nil {
			return err
		}
		got += len(resp.Kvs)
	}
	if got != blocks {
		return fmt.Errorf("the ledger has %d keys of claims, and %d blocks", got, blocks)
	}
	return nil
}

// readBlocks reads the keys that opening reads.
func (s *stage) readBlocks(ctx context.Context, blocks int) error {
	from, got := "/ipam/v1/spaces/", 0
	for n := atOnce; got < blocks; n += atOnce {
		end := clientv3.GetPrefixRangeEnd("/ipam/v1/spaces/")
		if n < blocks {
			end = "/ipam/v1/spaces/pool/blocks/" + written(s.family.block(n))
		}
		resp, err := s.client.Get(ctx, from, clientv3.WithRange(end))
		if err != nil {
			return err
		}
		if len(resp.Kvs) == 0 {
			return fmt.Errorf("the ledger has no keys from %s to %s: follow the allocator in how keys are written", from, end)
		}
		from, got = end, got+len(resp.Kvs)
	}
	return nil
}

// heap returns the number of bytes in live objects.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one's finalizers let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
