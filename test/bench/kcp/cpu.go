package kcp

import (
	"context"
	"time"

	"github.com/kcp-ipam/ipam/test/bench/harness"
)

// resting is how long the processes are watched doing nothing.
const resting = 3 * time.Second

// usage is what processes have taken since they began.
type usage struct {
	at                            time.Time
	controller, kcp               time.Duration // of processors
	controllerMetrics, kcpMetrics harness.Metrics
}

// idle is the processor time that processes take doing nothing, as a share of time.
type idle struct {
	controller, kcp float64
}

// rest finds out what each side's controller, and kcp, take doing nothing.
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

// usage reads what kcp and a side's controller have taken.
func (s *stage) usage(ctx context.Context, side *side) (usage, error) {
	now := usage{}
	var err error
	if side.controller != nil {
		if now.controllerMetrics, err = readMetrics(side.controller.Metrics(ctx)); err != nil {
			return usage{}, err
		}
		now.controller = cpuTime(now.controllerMetrics)
	}
	if now.kcpMetrics, err = readMetrics(s.Metrics(ctx)); err != nil {
		return usage{}, err
	}
	now.kcp = cpuTime(now.kcpMetrics)
	now.at = time.Now()
	return now, nil
}

func cpuTime(metrics harness.Metrics) time.Duration {
	return time.Duration(metrics.Sum("process_cpu_seconds_total") * float64(time.Second))
}
