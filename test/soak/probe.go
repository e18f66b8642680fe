package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kcp-ipam/ipam/test/framework/retry"
)

// process is one that is looked at.
type process struct {
	name, role string
	// metrics returns what it says of itself, after a collection of garbage.
	metrics func(context.Context) (string, error)
}

// reading is what a process has said of itself at one time, by metric.
type reading struct {
	at     time.Time
	values map[string]float64
}

// course is all that a process has said.
type course struct{ readings []reading }

// Metrics that are read of each process. The last is no metric but their number.
const (
	heap       = "go_memstats_heap_alloc_bytes"
	resident   = "process_resident_memory_bytes"
	goroutines = "go_goroutines"
	files      = "process_open_fds"
	dbSize     = "etcd_mvcc_db_total_size_in_bytes"
	dbInUse    = "etcd_mvcc_db_total_size_in_use_in_bytes"
	series     = "series"
)

// collect is the profile that has Go collect garbage before it is made.
const collect = "heap?gc=1&debug=1"

// processes are all that are looked at.
func (s *stage) processes() []process {
	var list []process
	for i, replica := range s.replicas {
		list = append(list, process{replicaName(i), kindReplica, func(ctx context.Context) (string, error) {
			if _, err := replica.Profile(ctx, collect); err != nil {
				return "", err
			}
			return replica.Metrics(ctx)
		}})
	}
	for i, member := range s.ledger.Members {
		list = append(list, process{memberName(i), kindMember, func(ctx context.Context) (string, error) {
			if _, err := fetch(ctx, "http://"+member.Addr+"/debug/pprof/"+collect); err != nil {
				return "", err
			}
			return fetch(ctx, "http://"+member.Addr+"/metrics")
		}})
	}
	return append(list, process{"kcp", kindKCP, s.Metrics})
}

func fetch(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // The body was read.
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", url, response.Status)
	}
	return string(body), err
}

// look has a process say what it is like.
func (p process) look(ctx context.Context) (reading, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	text, err := p.metrics(ctx)
	if err != nil {
		return reading{}, fmt.Errorf("look at %s: %w", p.name, err)
	}
	return reading{time.Now(), parseMetrics(text)}, nil
}

// parseMetrics reads the metrics without labels, in the text format of Prometheus, and
// counts them all.
func parseMetrics(text string) map[string]float64 {
	values := map[string]float64{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		values[series]++
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if number, err := strconv.ParseFloat(value, 64); ok && err == nil && !strings.Contains(name, "{") {
			values[name] = number
		}
	}
	return values
}

// watch measures all processes at intervals, while ctx lasts. It skips those that do not run.
func (s *stage) watch(ctx context.Context) error {
	all := s.processes()
	for retry.Pause(ctx, s.sample) {
		s.record.count(time.Now())
		var group errgroup.Group
		for _, p := range all {
			group.Go(func() error {
				if now, err := p.look(ctx); err == nil {
					s.record.saw(p.name, now)
				}
				return nil
			})
		}
		_ = group.Wait() // what could not be looked at is a gap in the samples
	}
	return nil
}
