package observability

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/util/annotations"
	"sigs.k8s.io/yaml"

	"github.com/kcp-ipam/ipam/test/must"
)

// unitTest is a file of tests/, in the form of those that promtool runs. Of the
// annotations only those that are given are compared.
type unitTest struct {
	RuleFiles          []string       `json:"rule_files"`
	EvaluationInterval model.Duration `json:"evaluation_interval"`
	Tests              []scenario     `json:"tests"`
}

type scenario struct {
	Name        string         `json:"name"`
	Interval    model.Duration `json:"interval"`
	InputSeries []struct {
		Series string `json:"series"`
		Values string `json:"values"`
	} `json:"input_series"`
	AlertRuleTest []struct {
		EvalTime  model.Duration `json:"eval_time"`
		Alertname string         `json:"alertname"`
		ExpAlerts []alert        `json:"exp_alerts"`
	} `json:"alert_rule_test"`
}

// alert is an alert that fires.
type alert struct {
	Labels      map[string]string `json:"exp_labels"`
	Annotations map[string]string `json:"exp_annotations"`
}

// series is what was scraped. It is a storage.Queryable.
type series []promql.Series

func (s scenario) scraped(t *testing.T) series {
	t.Helper()
	var all series
	for _, input := range s.InputSeries {
		metric, values, err := parser.ParseSeriesDesc(input.Series + " " + input.Values)
		if err != nil {
			t.Fatalf("%s: %v", input.Series, err)
		}
		one := promql.Series{Metric: metric}
		for i, v := range values {
			if !v.Omitted {
				one.Floats = append(one.Floats, promql.FPoint{T: int64(i) * time.Duration(s.Interval).Milliseconds(), F: v.Value})
			}
		}
		all = append(all, one)
	}
	return all
}

func (s series) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: s.choose}, nil
}

func (s series) choose(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	chosen := &seriesSet{}
	for _, one := range s {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.Metric.Get(m.Name)) }) {
			chosen.rest = append(chosen.rest, promql.NewStorageSeries(one))
		}
	}
	return chosen
}

// seriesSet is a storage.SeriesSet over what is left of a list.
type seriesSet struct {
	at   storage.Series
	rest []storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.rest) == 0 {
		return false
	}
	s.at, s.rest = s.rest[0], s.rest[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return s.at }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// prometheusServer evaluates rules as Prometheus does.
type prometheusServer struct {
	*promql.Engine
	interval time.Duration
}

// firing lists the alerts of a rule that fire at a time, after the rule was evaluated
// at every interval up to then.
func (p prometheusServer) firing(t *testing.T, r rule, scraped series, until time.Duration) []alert {
	t.Helper()
	var patience time.Duration
	if r.For != "" {
		d := must.Get(model.ParseDuration(r.For))(t)
		patience = time.Duration(d)
	}
	since := map[uint64]time.Duration{}
	var firing []alert
	for now := time.Duration(0); now <= until; now += p.interval {
		before := since
		since, firing = map[uint64]time.Duration{}, nil
		for _, sample := range p.query(t, r.Expr, scraped, now) {
			id := sample.Metric.Hash()
			since[id] = now
			if begun, ok := before[id]; ok {
				since[id] = begun
			}
			if now-since[id] >= patience {
				firing = append(firing, r.fire(t, sample))
			}
		}
	}
	return firing
}

func (p prometheusServer) query(t *testing.T, expr string, scraped series, now time.Duration) promql.Vector {
	t.Helper()
	query := must.Get(p.NewInstantQuery(t.Context(), scraped, nil, expr, time.Unix(0, 0).Add(now)))(t)
	defer query.Close()
	vector := must.Get(query.Exec(t.Context()).Vector())(t)
	return slices.Clone(vector)
}

// fire returns the alert for a sample, its templates filled in.
func (r rule) fire(t *testing.T, sample promql.Sample) alert {
	t.Helper()
	own := sample.Metric.Map()
	delete(own, model.MetricNameLabel)
	data := template.AlertTemplateData(own, nil, "", sample)
	noQuery := func(context.Context, string, time.Time) (promql.Vector, error) {
		return nil, errors.New("an annotation asks for more")
	}
	said := map[string]string{}
	for name, text := range r.Annotations {
		intro := "{{$labels := .Labels}}{{$value := .Value}}"
		expanded, err := template.NewTemplateExpander(t.Context(), intro+text, name, data, 0, noQuery, nil, nil).Expand()
		if err != nil {
			t.Errorf("annotation %s: %v", name, err)
		}
		said[name] = expanded
	}
	maps.Copy(own, r.Labels)
	return alert{Labels: own, Annotations: said}
}

func TestRules(t *testing.T) {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
	defer engine.Close()
	for _, r := range alerts(t) {
		t.Run(r.Alert, func(t *testing.T) {
			text := must.Get(os.ReadFile(filepath.Join("tests", r.Alert+".yaml")))(t)
			var file unitTest
			must.Do(t, yaml.UnmarshalStrict(text, &file))
			server := prometheusServer{engine, time.Duration(file.EvaluationInterval)}
			fired, quiet := 0, 0
			for _, s := range file.Tests {
				fires, stays := server.run(t, r, s)
				fired, quiet = fired+fires, quiet+stays
			}
			if fired == 0 || quiet == 0 {
				t.Errorf("it is tested to fire %d times, and not to fire %d times; test both", fired, quiet)
			}
		})
	}
}

// run runs a scenario, and counts how often the alert fires and how often it does not.
func (p prometheusServer) run(t *testing.T, r rule, s scenario) (fired, quiet int) {
	t.Helper()
	scraped := s.scraped(t)
	for _, test := range s.AlertRuleTest {
		if test.Alertname != r.Alert {
			t.Errorf("%s: tests %s in the file of %s", s.Name, test.Alertname, r.Alert)
		}
		got := p.firing(t, r, scraped, time.Duration(test.EvalTime))
		for i := range got {
			if i < len(test.ExpAlerts) {
				keep := test.ExpAlerts[i].Annotations
				maps.DeleteFunc(got[i].Annotations, func(name, _ string) bool { return keep[name] == "" })
			}
		}
		if diff := cmp.Diff(test.ExpAlerts, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s, at %s (-want +got):\n%s", s.Name, test.EvalTime, diff)
		}
		if len(got) > 0 {
			fired++
		} else {
			quiet++
		}
	}
	return fired, quiet
}

func TestRules_HaveAnAlertForEachTestFile(t *testing.T) {
	files := must.Get(filepath.Glob(filepath.Join("tests", "*")))(t)
	rules := alerts(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if !slices.ContainsFunc(rules, func(r rule) bool { return r.Alert == name }) {
			t.Errorf("%s tests no alert", file)
		}
	}
}
