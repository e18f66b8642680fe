package source

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
)

// patience is how long a list may take before the log says so, again and again.
const patience = 30 * time.Second

// errSilent: the server has refused nothing, and the list is not complete.
var errSilent = errors.New("the server has not sent all of them yet")

// health knows how long the list of a kind is overdue. Safe for concurrent use.
type health struct {
	kind, server string

	mu    sync.Mutex
	since time.Time // when a list was asked for that has not come; zero: none is overdue
	fault error     // of the last attempt
	timer *time.Timer
	stop  func() bool
}

// begin notes that a list is asked for. That ends with ctx.
func (h *health) begin(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.since.IsZero() {
		return
	}
	h.since, h.fault = time.Now(), errSilent
	h.timer = time.AfterFunc(patience, func() { h.tell(ctx) })
	h.stop = context.AfterFunc(ctx, h.end)
	overdue.add(h)
}

// fail notes why a list or a watch was not begun.
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
	overdue.remove(h)
}

// tell says that the list is overdue.
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

// overdue collects the lists that are overdue.
var overdue = &overdueLists{
	lists: map[*health]bool{},
	desc: prometheus.NewDesc("ipam_list_overdue_seconds",
		"For how long the objects of a kind cannot be listed at a server, the longest of all servers; 0 if they can.", []string{"kind"}, nil),
}

// overdueLists is a collector of lists that have not come. Safe for concurrent use.
type overdueLists struct {
	desc *prometheus.Desc

	mu    sync.Mutex
	lists map[*health]bool // false: it has come
}

func (o *overdueLists) add(h *health) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lists[h] = true
}

func (o *overdueLists) remove(h *health) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.lists, h)
	kinds.Store(h.kind, true)
}

// kinds are all that were listed: of these the metric says 0.
var kinds sync.Map

// Describe implements prometheus.Collector.
func (o *overdueLists) Describe(to chan<- *prometheus.Desc) { to <- o.desc }

// Collect implements prometheus.Collector.
func (o *overdueLists) Collect(to chan<- prometheus.Metric) {
	longest := map[string]float64{}
	kinds.Range(func(kind, _ any) bool {
		longest[kind.(string)] = 0
		return true
	})
	for _, h := range o.all() {
		longest[h.kind] = max(longest[h.kind], h.age().Seconds())
	}
	for kind, seconds := range longest {
		to <- prometheus.MustNewConstMetric(o.desc, prometheus.GaugeValue, seconds, kind)
	}
}

// all are the lists that are overdue. A health is locked before these are.
func (o *overdueLists) all() []*health {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]*health, 0, len(o.lists))
	for h := range o.lists {
		all = append(all, h)
	}
	return all
}

func (h *health) age() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.IsZero() {
		return 0
	}
	return time.Since(h.since)
}
