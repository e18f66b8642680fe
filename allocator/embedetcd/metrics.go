package embedetcd

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// own is how the names of etcd's own metrics begin.
const own = "etcd_"

// Metrics collects etcd's own metrics, such as how long the disk takes. etcd registers them with the default registry
// of the process. Register this collector with another registry, which then has etcd's metrics, and none of the others.
func Metrics() prometheus.Collector { return relay{prometheus.DefaultGatherer} }

// relay collects etcd's metrics from a gatherer. It describes nothing, because the metrics are known only when they are
// gathered.
type relay struct{ from prometheus.Gatherer }

// Describe implements prometheus.Collector.
func (relay) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (r relay) Collect(ch chan<- prometheus.Metric) {
	families, err := r.from.Gather()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
	}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), own) {
			continue
		}
		for _, m := range family.GetMetric() {
			ch <- gathered{prometheus.NewDesc(family.GetName(), family.GetHelp(), names(m), nil), m}
		}
	}
}

// names lists the labels of a metric.
func names(m *dto.Metric) []string {
	labels := make([]string, len(m.GetLabel()))
	for i, pair := range m.GetLabel() {
		labels[i] = pair.GetName()
	}
	return labels
}

// gathered is a metric that another registry has gathered.
type gathered struct {
	desc   *prometheus.Desc
	metric *dto.Metric
}

// Desc implements prometheus.Metric.
func (g gathered) Desc() *prometheus.Desc { return g.desc }

// Write implements prometheus.Metric.
func (g gathered) Write(into *dto.Metric) error {
	into.Label = g.metric.Label
	into.Counter, into.Gauge, into.Untyped = g.metric.Counter, g.metric.Gauge, g.metric.Untyped
	into.Summary, into.Histogram = g.metric.Summary, g.metric.Histogram
	return nil
}
