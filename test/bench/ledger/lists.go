package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator"
)

// lists reads all blocks of a pool that fills up, as the sweep does, and binds beside it.
func lists(ctx context.Context, opts *options, out io.Writer) (err error) {
	s, err := newStage(ctx, families[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	listing := newTable("blocks held", "list, s", "one raw read of the same keys, s", "÷ raw", "÷ the list of half as many")
	taken := map[int]figures{}
	for _, fifths := range []int{1, 2, 4, 5} {
		blocks := opts.blocks / 5 * fifths
		if err := s.fill(ctx, blocks); err != nil {
			return err
		}
		var listed, read figures
		for range opts.rounds {
			for _, m := range []struct {
				read func(context.Context) error
				into *figures
			}{{s.readAtOnce, &read}, {s.list, &listed}} {
				runtime.GC() // of what the read before left
				began := time.Now()
				if err := m.read(ctx); err != nil {
					return err
				}
				*m.into = append(*m.into, time.Since(began).Seconds())
			}
		}
		taken[fifths] = listed
		growth := ""
		if half := taken[fifths/2]; fifths%2 == 0 {
			growth = listed.over(half).write("%.2f")
		}
		listing.row(count(blocks), listed.write("%.2f"), read.write("%.2f"), listed.over(read).write("%.2f"), growth)
	}
	fmt.Fprintf(out, "### Lists\n\n%s\nRaw is one request for all keys; a list reads pages, and decodes them. Garbage is collected before each.\n\n", listing)
	return s.besideLists(ctx, opts, out)
}

// besideLists measures binds while nobody lists, and while somebody always does.
func (s *stage) besideLists(ctx context.Context, opts *options, out io.Writer) error {
	var alone, beside figures
	for range opts.rounds {
		waited, err := nowAndThen(4*opts.round(), func() error { return s.bind(ctx, "pool") })
		if err != nil {
			return err
		}
		alone = append(alone, waited.quantile(0.95))
		listing, end := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			err := error(nil)
			for err == nil && listing.Err() == nil {
				err = s.list(listing)
			}
			ended <- err
		}()
		waited, err = nowAndThen(4*opts.round(), func() error { return s.bind(ctx, "pool") })
		end()
		if failed := <-ended; err == nil && !errors.Is(failed, context.Canceled) {
			err = failed
		}
		if err != nil {
			return err
		}
		beside = append(beside, waited.quantile(0.95))
	}
	t := newTable("a bind", "p95 ms", "÷ alone")
	t.row("alone", alone.each(milliseconds).write("%.1f"), alone.over(alone).write("%.2f"))
	t.row("beside a list", beside.each(milliseconds).write("%.1f"), beside.over(alone).write("%.2f"))
	fmt.Fprintf(out, "%s\nOne bind every %s into the full pool, while nobody lists, and while one list follows the other.\n\n", t, quietEvery)
	return nil
}

// list reads all blocks through the allocator.
func (s *stage) list(ctx context.Context) error {
	for _, err := range s.List(ctx, allocator.ListOptions{}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// readAtOnce reads the same keys by one request.
func (s *stage) readAtOnce(ctx context.Context) error {
	_, err := s.client.Get(ctx, "/ipam/v1/spaces/", clientv3.WithRange(clientv3.GetPrefixRangeEnd("/ipam/v1/spaces/")))
	return err
}
