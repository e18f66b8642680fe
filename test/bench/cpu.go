package main

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes"
)

// usage is the processor time that processes have taken since they began.
type usage struct {
	controller, kcp time.Duration
}

var cpuSeconds = regexp.MustCompile(`(?m)^process_cpu_seconds_total (\S+)$`)

// usage reads what kcp and a side's controller have taken.
func (s *stage) usage(ctx context.Context, side *side) (usage, error) {
	text, err := side.controller.Metrics(ctx)
	if err != nil {
		return usage{}, err
	}
	controller, err := cpuTime(text)
	if err != nil {
		return usage{}, err
	}
	c, err := kubernetes.NewForConfig(s.admin)
	if err != nil {
		return usage{}, err
	}
	data, err := c.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return usage{}, err
	}
	kcp, err := cpuTime(string(data))
	return usage{controller, kcp}, err
}

func cpuTime(metrics string) (time.Duration, error) {
	match := cpuSeconds.FindStringSubmatch(metrics)
	if match == nil {
		return 0, errors.New("the metrics don't tell process_cpu_seconds_total")
	}
	seconds, err := strconv.ParseFloat(match[1], 64)
	return time.Duration(seconds * float64(time.Second)), err
}
