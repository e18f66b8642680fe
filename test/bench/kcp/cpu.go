package kcp

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"time"
)

// resting is how long the processes are watched doing nothing.
const resting = 3 * time.Second

// usage is the processor time that processes have taken since they began.
type usage struct {
	at              time.Time
	controller, kcp time.Duration
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

var cpuSeconds = regexp.MustCompile(`(?m)^process_cpu_seconds_total (\S+)$`)

// usage reads what kcp and a side's controller have taken.
func (s *stage) usage(ctx context.Context, side *side) (usage, error) {
	controller, err := side.cpuTime(ctx)
	if err != nil {
		return usage{}, err
	}
	text, err := s.Metrics(ctx)
	if err != nil {
		return usage{}, err
	}
	kcp, err := cpuTime(text)
	return usage{time.Now(), controller, kcp}, err
}

// cpuTime is what the side's controller has taken; 0 without one.
func (s *side) cpuTime(ctx context.Context) (time.Duration, error) {
	if s.controller == nil {
		return 0, nil
	}
	text, err := s.controller.Metrics(ctx)
	if err != nil {
		return 0, err
	}
	return cpuTime(text)
}

func cpuTime(metrics string) (time.Duration, error) {
	match := cpuSeconds.FindStringSubmatch(metrics)
	if match == nil {
		return 0, errors.New("the metrics don't tell process_cpu_seconds_total")
	}
	seconds, err := strconv.ParseFloat(match[1], 64)
	return time.Duration(seconds * float64(time.Second)), err
}
