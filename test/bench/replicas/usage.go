package replicas

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// resting is how long the processes are watched doing nothing.
const resting = 5 * time.Second

// usage is what processes have taken: seconds of processor time since they began, and
// the bytes they have now. Those of a team are added up.
type usage struct {
	at                             float64 // seconds
	controllers, memory, conflicts float64
	kcp                            float64
}

// idle is the processor time that processes take doing nothing, as a share of time.
type idle struct {
	controllers, kcp float64
}

// rest finds out what each team, and kcp, take doing nothing.
func (s *stage) rest(ctx context.Context) error {
	before := make([]usage, len(s.teams))
	for i, t := range s.teams {
		var err error
		if before[i], err = s.usage(ctx, t); err != nil {
			return err
		}
	}
	select {
	case <-time.After(resting):
	case <-ctx.Done():
		return ctx.Err()
	}
	for i, t := range s.teams {
		now, err := s.usage(ctx, t)
		if err != nil {
			return err
		}
		passed := now.at - before[i].at
		t.resting = idle{controllers: (now.controllers - before[i].controllers) / passed, kcp: (now.kcp - before[i].kcp) / passed}
		s.Say("%s takes %.1f%% of a processor doing nothing", t.name, t.resting.controllers*100)
	}
	return nil
}

// usage reads what kcp and a team have taken.
func (s *stage) usage(ctx context.Context, t *team) (usage, error) {
	u := usage{at: time.Duration(time.Now().UnixNano()).Seconds()}
	for _, replica := range t.replicas {
		text, err := replica.Metrics(ctx)
		if err != nil {
			return u, err
		}
		for metric, sum := range map[string]*float64{
			"process_cpu_seconds_total": &u.controllers, "process_resident_memory_bytes": &u.memory, "ipam_ledger_conflicts_total": &u.conflicts,
		} {
			value, err := read(text, metric)
			if err != nil {
				return u, err
			}
			*sum += value
		}
	}
	text, err := s.Metrics(ctx)
	if err != nil {
		return u, err
	}
	u.kcp, err = read(text, "process_cpu_seconds_total")
	return u, err
}

// read returns the value of a metric without labels.
func read(text, metric string) (float64, error) {
	match := regexp.MustCompile(`(?m)^` + metric + ` (\S+)$`).FindStringSubmatch(text)
	if match == nil {
		return 0, fmt.Errorf("the metrics don't tell %s", metric)
	}
	return strconv.ParseFloat(match[1], 64)
}
