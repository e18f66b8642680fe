// Package harness is the common part of the programs that measure: they end on a signal, report their progress, run
// on a kcp of their own, and publish their results.
package harness

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/test/bench/page"
)

// Say reports a program's progress. It is safe for concurrent use.
type Say func(format string, args ...any)

// Main runs a program of that name, as its main function. What run says goes to stderr, with the seconds since the
// beginning. The first signal cancels ctx. An error ends the program with exit code 1.
func Main(name string, run func(ctx context.Context, args []string, say Say) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the program at once
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	if err := run(ctx, os.Args[1:], say); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Publish writes text to its section of a page, or to stdout if file is empty.
func Publish(file, section, text string) error {
	if file == "" {
		_, err := io.WriteString(os.Stdout, text)
		return err
	}
	return page.Write(file, section, text)
}

// Metrics are the metrics of a program, by their names.
type Metrics map[string]*dto.MetricFamily

// ParseMetrics reads the text format of Prometheus.
func ParseMetrics(text string) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(strings.NewReader(text))
}

// Sum adds up the series of a metric that have all labels, which are given as name and value in turn. For a
// histogram, it adds up the numbers of observations.
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

// Mean averages the observations of a histogram; 0 if there are none.
func (m Metrics) Mean(name string) float64 {
	count, sum := m.Sum(name), 0.0
	for _, metric := range m[name].GetMetric() {
		sum += metric.GetHistogram().GetSampleSum()
	}
	return sum / max(count, 1)
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
