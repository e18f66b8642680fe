package harness

import (
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are those of a program, by their names.
type Metrics map[string]*dto.MetricFamily

// ParseMetrics reads the text format of Prometheus.
func ParseMetrics(text string) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(strings.NewReader(text))
}

// Sum adds up the series of a metric that have all labels, given as name and value. Of a
// histogram it is the number of observations.
func (m Metrics) Sum(name string, labels ...string) float64 {
	var total float64
	for _, metric := range m[name].GetMetric() {
		if !has(metric, labels) {
			continue
		}
		total += metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
	}
	return total
}

// Mean is that of the observations of a histogram; 0 if there are none.
func (m Metrics) Mean(name string) float64 {
	sum, count := m.Observed(name)
	if count == 0 {
		return 0
	}
	return sum / count
}

// Observed returns the sum and the number of the observations of a histogram, in the series that have
// all labels, given as name and value.
func (m Metrics) Observed(name string, labels ...string) (sum, count float64) {
	for _, metric := range m[name].GetMetric() {
		if has(metric, labels) {
			sum += metric.GetHistogram().GetSampleSum()
			count += float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return sum, count
}

func has(metric *dto.Metric, labels []string) bool {
	values := map[string]string{}
	for _, label := range metric.GetLabel() {
		values[label.GetName()] = label.GetValue()
	}
	for i := 0; i < len(labels); i += 2 {
		if values[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}
