package scale

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kcp-ipam/ipam/test/bench/tenant"
)

// sample is what claims that were timed have shown: milliseconds, and milliseconds of
// processor time each.
type sample struct {
	clients         int
	p50, p95        float64
	controller, kcp float64
}

// sample times claims of clients, each in a workspace of its own, each its next claim when
// the last is bound. idle is what the controller takes anyway.
func (s *stage) sample(ctx context.Context, clients int, idle float64) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	before, err := s.spent(ctx)
	if err != nil {
		return sample{}, err
	}
	began := time.Now()
	took := make([][]time.Duration, clients)
	group, timed := errgroup.WithContext(ctx)
	for i := range clients {
		group.Go(func() (err error) {
			took[i], err = s.time(timed, i*len(s.tenants)/clients, s.opts.samples/clients)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return sample{}, err
	}
	passed := time.Since(began)
	after, err := s.spent(ctx)
	if err != nil {
		return sample{}, err
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	s.filled += len(all)
	at := func(q float64) float64 {
		return float64(all[int(q*float64(len(all)-1)+0.5)]) / float64(time.Millisecond)
	}
	return sample{
		clients: clients, p50: at(0.50), p95: at(0.95),
		controller: (after.controller - before.controller - idle*passed.Seconds()) * 1000 / float64(len(all)),
		kcp:        (after.kcp - before.kcp) * 1000 / float64(len(all)),
	}, nil
}

// time makes claims of a tenant one after the other, and tells how long each took to be bound.
func (s *stage) time(ctx context.Context, who, n int) ([]time.Duration, error) {
	t, err := tenant.Of(ctx, s.tenants[who], tenantName(who))
	if err != nil {
		return nil, err
	}
	defer t.Stop()
	took := make([]time.Duration, n)
	for i := range took {
		if took[i], err = t.Claim(ctx, tenant.NewName(), tenant.Bound, wanted()...); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// spent is the processor time in seconds that the controller and kcp have taken.
type spent struct{ controller, kcp float64 }

func (s *stage) spent(ctx context.Context) (spent, error) {
	controller, err := s.ipam.metrics(ctx)
	if err != nil {
		return spent{}, err
	}
	kcp, err := s.server(ctx)
	const name = "process_cpu_seconds_total"
	return spent{controller.Sum(name), kcp.Sum(name)}, err
}
