package fleet

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

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

// allocated is the heap in use right after the collection that the profile asks for. The metrics
// tell it later, with the garbage of a sweep.
var allocated = regexp.MustCompile(`(?m)^# HeapAlloc = ([0-9]+)$`)

// size measures after a collection of garbage.
func (s *stage) size(ctx context.Context) (size, error) {
	profile, err := s.Profile(ctx, "heap?gc=1&debug=1")
	if err != nil {
		return size{}, err
	}
	found := allocated.FindStringSubmatch(profile)
	if found == nil {
		return size{}, errors.New("the profile of the heap does not tell how much is allocated")
	}
	live, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		return size{}, err
	}
	m, err := s.metrics(ctx)
	return size{m.Sum("process_resident_memory_bytes"), live, m.Sum("go_goroutines")}, err
}
