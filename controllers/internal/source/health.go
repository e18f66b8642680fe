package source

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
)

// patience is how long a list may take before the log says that it is overdue. Until the list is complete, the log
// repeats that at the same interval.
const patience = 30 * time.Second

// errSilent: the server has refused nothing, and the list is not complete yet.
var errSilent = errors.New("the server has not sent all of them yet")

// health knows for how long the list of a kind has been overdue. Safe for concurrent use.
type health struct {
	kind, server string

	mu    sync.Mutex
	since time.Time // when the missing list was requested; zero: none is missing
	fault error     // the fault of the last attempt
	timer *time.Timer
	stop  func() bool
}

// begin notes that a list was requested. The request ends with ctx.
func (h *health) begin(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.since.IsZero() {
		return
	}
	h.since, h.fault = time.Now(), errSilent
	h.timer = time.AfterFunc(patience, func() { h.tell(ctx) })
	h.stop = context.AfterFunc(ctx, h.end)
	overdue.add(h.kind, h, h.since)
}

// fail notes why a list or a watch could not begin.
func (h *health) fail(ctx context.Context, err error) {
	h.begin(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault = err
}

// end notes that the list is complete.
func (h *health) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.IsZero() {
		return
	}
	h.since = time.Time{}
	h.timer.Stop()
	h.stop()
	overdue.remove(h.kind, h)
}

// tell logs that the list is overdue.
func (h *health) tell(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.IsZero() || ctx.Err() != nil {
		return
	}
	klog.FromContext(ctx).Error(h.fault, "the objects of a kind cannot be listed; it is tried again",
		"kind", h.kind, "server", h.server, "since", h.since.Format(time.RFC3339))
	h.timer.Reset(patience)
}

// overdue has the lists that were requested, and are not complete yet.
var overdue = &overdueLists{
	kinds: map[string]map[*health]time.Time{},
	desc: prometheus.NewDesc("ipam_list_overdue_seconds",
		"For how long the objects of a kind cannot be listed at a server, the longest of all servers; 0 if they can.",
		[]string{"kind"}, nil),
}

// overdueLists is a metric of the lists that were requested, and are not complete yet. Safe for concurrent use. Lock
// order: health.mu, then overdueLists.mu.
type overdueLists struct {
	desc *prometheus.Desc

	mu    sync.Mutex
	kinds map[string]map[*health]time.Time // by kind that was ever listed: when each missing list was requested
}

func (o *overdueLists) add(kind string, h *health, since time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kinds[kind] == nil {
		o.kinds[kind] = map[*health]time.Time{}
	}
	o.kinds[kind][h] = since
}

func (o *overdueLists) remove(kind string, h *health) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.kinds[kind], h)
}

// Describe implements prometheus.Collector.
func (o *overdueLists) Describe(to chan<- *prometheus.Desc) { to <- o.desc }

// Collect implements prometheus.Collector.
func (o *overdueLists) Collect(to chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for kind, lists := range o.kinds {
		longest := time.Duration(0)
		for _, since := range lists {
			longest = max(longest, time.Since(since))
		}
		to <- prometheus.MustNewConstMetric(o.desc, prometheus.GaugeValue, longest.Seconds(), kind)
	}
}
