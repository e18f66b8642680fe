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
	stormCallers = 256
	quietEvery   = 10 * time.Millisecond
)

// fair measures a caller that asks now and then while a storm asks one pool.
func fair(ctx context.Context, opts *options, out io.Writer) (err error) {
	s, err := newStage(ctx, families[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.register(ctx, "other", netip.MustParsePrefix("11.0.0.0/8")); err != nil {
		return err
	}
	r, err := s.newRaw(ctx, "fair")
	if err != nil {
		return err
	}
	storm, end := context.WithCancel(ctx)
	stormed := make(chan error, 1)
	go func() {
		_, err := measure(stormCallers, func() (bool, error) { return storm.Err() == nil, s.bind(ctx, "pool") })
		stormed <- err
	}()
	w, err := s.weather(ctx, opts, r)
	end()
	if err := errors.Join(err, <-stormed); err != nil {
		return err
	}
	t := newTable("the quiet caller asks", "p95 ms", "÷ raw", "÷ one group")
	for _, row := range []struct {
		name    string
		figures figures
	}{{"with raw transactions", w.raw}, {"another pool", w.other}, {"the pool of the storm", w.same}} {
		t.row(row.name, row.figures.each(milliseconds).write("%.1f"), row.figures.over(w.raw).write("%.2f"), row.figures.over(w.group).write("%.2f"))
	}
	fmt.Fprintf(out, "### In a storm\n\n%s\nOne request every %s while %d callers ask one pool as fast as they can; one that comes late counts from when it was due. "+
		"One group is the mean time of a transaction of the storm, %s ms. In the pool of the storm a request saw %.0f transactions end until it had "+
		"its answer, its own included, 95 of 100 times, and %.0f at most. Two are the one that was under way and the next, which is its own.\n\n",
		t, quietEvery, stormCallers, w.group.each(milliseconds).write("%.1f"), w.ended.quantile(0.95), w.ended.quantile(1))
	return nil
}

func milliseconds(seconds float64) float64 { return seconds * 1e3 }

// weather is how long a quiet caller waited, 95 of 100 times, and the storm's
// transactions took; in seconds. Ended is how many transactions ended during each
// request in the pool of the storm.
type weather struct{ raw, other, same, group, ended figures }

func (s *stage) weather(ctx context.Context, opts *options, r *raw) (w weather, err error) {
	for range opts.rounds {
		n, took, err := s.groups()
		if err != nil {
			return w, err
		}
		for _, quiet := range []struct {
			ask  func() error
			into *figures
		}{
			{func() error { return r.commit(ctx, 1) }, &w.raw},
			{func() error { return s.quiet(ctx, "other") }, &w.other},
			{func() error { return s.counted(&w.ended, func() error { return s.quiet(ctx, "pool") }) }, &w.same},
		} {
			waited, err := nowAndThen(2*opts.round(), quiet.ask)
			if err != nil {
				return w, err
			}
			*quiet.into = append(*quiet.into, waited.quantile(0.95))
		}
		nAfter, tookAfter, err := s.groups()
		if err != nil {
			return w, err
		}
		w.group = append(w.group, (tookAfter-took)/(nAfter-n))
	}
	return w, nil
}

// counted notes how many transactions end while f runs.
func (s *stage) counted(ended *figures, f func() error) error {
	before, _, err := s.groups()
	if err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	after, _, err := s.groups()
	*ended = append(*ended, after-before)
	return err
}

// quiet asks from a workspace other than the storm's.
func (s *stage) quiet(ctx context.Context, pool ledger.PoolID) error {
	req := s.request(pool)
	req.Holder.Cluster = "1kd83hf0qquiet00"
	_, err := s.Bind(ctx, req)
	return err
}

// nowAndThen asks at a steady pace and notes how long each took, in seconds. What
// comes late is asked late, and the waiting counts from when it was due.
func nowAndThen(d time.Duration, ask func() error) (figures, error) {
	var waited figures
	pace := time.NewTicker(quietEvery)
	defer pace.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); {
		due := <-pace.C
		if err := ask(); err != nil {
			return nil, err
		}
		waited = append(waited, time.Since(due).Seconds())
	}
	return waited, nil
}
