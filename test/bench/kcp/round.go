package kcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/bench/tenant"
	"github.com/kcp-ipam/ipam/test/framework/retry"
)

// round has the results of one round: the number of answers, their number per second, their times in milliseconds,
// and the processor time for each in milliseconds.
type round struct {
	answers, rate   float64
	p50, p95, p99   float64
	controller, kcp float64
	// backlog is how many answered claims had no IPAllocation at the end of the round. drained is how many milliseconds
	// later all had one.
	backlog, drained float64
}

// newRound sums up a round, which must have had an answer.
func newRound(took []time.Duration, lasted time.Duration) (round, error) {
	if len(took) == 0 {
		return round{}, errors.New("a round has seen no answer: give it more --round-seconds")
	}
	slices.Sort(took)
	at := func(q float64) float64 {
		return float64(took[int(q*float64(len(took)-1)+0.5)]) / float64(time.Millisecond)
	}
	return round{
		answers: float64(len(took)),
		rate:    float64(len(took)) / lasted.Seconds(),
		p50:     at(0.50), p95: at(0.95), p99: at(0.99),
	}, nil
}

// spend notes the processor time of the round's answers, without the time that idle processes use.
func (r *round) spend(before, after usage, resting idle) {
	passed := float64(after.at.Sub(before.at))
	each := func(before, after time.Duration, share float64) float64 {
		return (float64(after-before) - share*passed) / float64(time.Millisecond) / r.answers
	}
	r.controller = each(before.controller, after.controller, resting.controller)
	r.kcp = each(before.kcp, after.kcp, resting.kcp)
}

// crowd lets clients make claims side by side until the time is up. Each client makes its next claim when the last
// one is answered.
func (s *side) crowd(ctx context.Context, k kind, clients int, during time.Duration) (round, error) {
	claiming, cancel := context.WithTimeoutCause(ctx, during+patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	took := make([][]time.Duration, clients)
	began := time.Now()
	group, claiming := errgroup.WithContext(claiming)
	for i := range took {
		group.Go(func() error {
			for time.Since(began) < during {
				one, err := s.tenants[i%len(s.tenants)].Claim(claiming, tenant.NewName(), k.answered, k.options...)
				if err != nil {
					return err
				}
				took[i] = append(took[i], one)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return round{}, err
	}
	shown, err := newRound(slices.Concat(took...), time.Since(began))
	if err != nil {
		return round{}, err
	}
	err = s.drain(ctx, &shown)
	return shown, err
}

// drain notes how many answered claims have no IPAllocation yet, and waits until all have one.
func (s *side) drain(ctx context.Context, shown *round) error {
	over := time.Now()
	backlog, err := tenant.Unrecorded(ctx, s.tenants)
	if err != nil || backlog == 0 {
		return err
	}
	shown.backlog = float64(backlog)
	err = retry.Do(ctx, patience, "wait for every claim to have its IPAllocation", func(ctx context.Context) error {
		backlog, err := tenant.Unrecorded(ctx, s.tenants)
		if err == nil && backlog > 0 {
			err = fmt.Errorf("%d have none", backlog)
		}
		return err
	})
	shown.drained = float64(time.Since(over)) / float64(time.Millisecond)
	return err
}

// resting is for how long the idle processes are measured.
const resting = 3 * time.Second

// usage is the processor time that processes have used since they started.
type usage struct {
	at              time.Time
	controller, kcp time.Duration // of processors
}

// idle is the processor time that idle processes use, as a share of real time.
type idle struct {
	controller, kcp float64
}

// rest measures what each side's controller, and kcp, use while they are idle.
func (s *stage) rest(ctx context.Context) error {
	var before []usage
	for _, side := range s.sides() {
		now, err := s.usage(ctx, side)
		if err != nil {
			return err
		}
		before = append(before, now)
	}
	select {
	case <-time.After(resting):
	case <-ctx.Done():
		return ctx.Err()
	}
	for i, side := range s.sides() {
		now, err := s.usage(ctx, side)
		if err != nil {
			return err
		}
		passed := float64(now.at.Sub(before[i].at))
		side.resting = idle{
			controller: float64(now.controller-before[i].controller) / passed,
			kcp:        float64(now.kcp-before[i].kcp) / passed,
		}
	}
	return nil
}

// usage reads the processor time that kcp and a side's controller have used.
func (s *stage) usage(ctx context.Context, side *side) (usage, error) {
	now := usage{}
	var err error
	if side.controller != nil {
		if now.controller, err = cpuTime(side.controller.Metrics(ctx)); err != nil {
			return usage{}, err
		}
	}
	now.kcp, err = cpuTime(s.Metrics(ctx))
	now.at = time.Now()
	return now, err
}

// cpuTime returns the processor time that a program has used, from its metrics.
func cpuTime(text string, err error) (time.Duration, error) {
	if err != nil {
		return 0, err
	}
	metrics, err := harness.ParseMetrics(text)
	return time.Duration(metrics.Sum("process_cpu_seconds_total") * float64(time.Second)), err
}
