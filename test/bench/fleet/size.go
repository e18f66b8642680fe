package fleet

import (
	"context"
	"fmt"

	"github.com/kcp-ipam/ipam/test/bench/harness"
)

// The metrics that are read in several places.
const (
	spent = "process_cpu_seconds_total"
	freed = "ipam_ledger_blocks_released_total"
)

// size is what the controller takes of the machine.
type size struct {
	resident, live, goroutines float64 // bytes, bytes of the heap that are in use, a number
}

func (s size) String() string {
	return fmt.Sprintf("%.0f MiB of live heap, %.0f MiB resident, %.0f goroutines", s.live/(1<<20), s.resident/(1<<20), s.goroutines)
}

func (s *stage) metrics(ctx context.Context) (harness.Metrics, error) {
	text, err := s.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	return harness.ParseMetrics(text)
}

// size measures after a collection of garbage.
func (s *stage) size(ctx context.Context) (size, error) {
	if _, err := s.Profile(ctx, "heap?gc=1"); err != nil {
		return size{}, err
	}
	m, err := s.metrics(ctx)
	return size{m.Sum("process_resident_memory_bytes"), m.Sum("go_memstats_heap_alloc_bytes"), m.Sum("go_goroutines")}, err
}
