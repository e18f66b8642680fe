// Package memory finds the memory limit of the controller, and warns before the limit is reached.
package memory

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/procfs"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	// interval is the time between two looks of a Watch.
	interval = 15 * time.Second
	// much and less are shares of the limit. A Watch warns when the process uses the first share or more. It warns again
	// only after the process has used less than the second share.
	much, less = 0.85, 0.75
)

// Limit returns how much memory the control group of this process may have, in bytes. ok is false if there is no limit,
// or if Linux does not show it by cgroup v2.
func Limit() (bytes float64, ok bool) { return limitBelow("/proc/self/cgroup", "/sys/fs/cgroup") }

// limitBelow reads the limit. file names the control group of the process, and tree has all groups.
func limitBelow(file, tree string) (bytes float64, ok bool) {
	name, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	path, ok := strings.CutPrefix(strings.TrimSpace(string(name)), "0::")
	if !ok {
		return 0, false
	}
	text, err := os.ReadFile(filepath.Join(tree, path, "memory.max")) //nolint:gosec // Both are the kernel's.
	if err != nil {
		return 0, false
	}
	limit, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	return limit, err == nil && limit > 0 // else it is "max"
}

// resident returns how many bytes of memory this process uses.
func resident() (bytes float64, err error) {
	self, err := procfs.Self()
	if err != nil {
		return 0, err
	}
	stat, err := self.Stat()
	return float64(stat.ResidentMemory()), err
}

// Watch logs when the memory of this process is nearly used up. It logs that again only after the process used less. A
// manager runs a Watch on every replica. The zero value is ready.
type Watch struct {
	// Limit defaults to that of the control group.
	Limit func() (bytes float64, ok bool)
	// Resident defaults to the memory that this process uses.
	Resident func() (bytes float64, err error)
	// Clock defaults to the real one.
	Clock clock.WithTicker

	warned bool
}

var _ manager.LeaderElectionRunnable = (*Watch)(nil)

// NeedLeaderElection says that every replica watches.
func (w *Watch) NeedLeaderElection() bool { return false }

// Start watches until the context ends.
func (w *Watch) Start(ctx context.Context) error {
	if w.Limit == nil {
		w.Limit = Limit
	}
	if w.Resident == nil {
		w.Resident = resident
	}
	if w.Clock == nil {
		w.Clock = clock.RealClock{}
	}
	ticker := w.Clock.NewTicker(interval)
	defer ticker.Stop()
	for {
		w.look(ctx)
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *Watch) look(ctx context.Context) {
	limit, ok := w.Limit()
	used, err := w.Resident()
	if !ok || err != nil {
		return // the metrics lack the one or the other, too
	}
	switch share := used / limit; {
	case share >= much && !w.warned:
		w.warned = true
		log.FromContext(ctx).Info(
			"the memory is nearly used up: give the controller more, or set GOMEMLIMIT a tenth below the limit",
			"resident", int64(used), "limit", int64(limit))
	case share < less:
		w.warned = false
	}
}

// described is the limit as a metric.
var described = prometheus.NewDesc("ipam_memory_limit_bytes",
	"Memory that the controller may have before it is killed; absent if there is no limit.", nil, nil)

// collector shows the limit, where there is one.
type collector struct{}

// Describe implements prometheus.Collector.
func (collector) Describe(descs chan<- *prometheus.Desc) { descs <- described }

// Collect implements prometheus.Collector.
func (collector) Collect(values chan<- prometheus.Metric) {
	if limit, ok := Limit(); ok {
		values <- prometheus.MustNewConstMetric(described, prometheus.GaugeValue, limit)
	}
}

func init() { metrics.Registry.MustRegister(collector{}) }
