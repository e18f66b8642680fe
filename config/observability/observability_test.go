// Package observability tests that the dashboard and the alerts speak of metrics
// that the controller exports, and that each alert leads somewhere.
package observability

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"

	"github.com/kcp-ipam/ipam/test/must"
)

// runbooks is where a runbook_url leads, in this repository.
const runbooks = "https://github.com/kcp-ipam/ipam/blob/main/"

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func alerts(t *testing.T) []rule {
	t.Helper()
	text := must.Get(os.ReadFile("alerts.yaml"))(t)
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []rule `json:"rules"`
		} `json:"groups"`
	}
	must.Do(t, yaml.UnmarshalStrict(text, &file))
	var rules []rule
	for _, group := range file.Groups {
		rules = append(rules, group.Rules...)
	}
	if len(rules) == 0 {
		t.Fatal("there are no alerts")
	}
	return rules
}

// panel is as much of a panel of Grafana as matters here.
type panel struct {
	ID      int    `json:"id"`
	Type    string `json:"type"`
	Title   string `json:"title"`
	GridPos struct{ H, W, X, Y int }
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
}

func panels(t *testing.T) []panel {
	t.Helper()
	text := must.Get(os.ReadFile("dashboard.json"))(t)
	var dashboard struct {
		Panels []panel `json:"panels"`
	}
	must.Do(t, json.Unmarshal(text, &dashboard))
	return dashboard.Panels
}

// labelsAdded are put on every series by the scraper, or by the kind of metric.
var labelsAdded = []string{model.MetricNameLabel, model.InstanceLabel, model.JobLabel, model.BucketLabel}

// check parses an expression, and looks for its metrics and their labels.
func check(t *testing.T, expr string, known map[string]metric) {
	t.Helper()
	parsed, err := parser.ParseExpr(strings.ReplaceAll(expr, "$__rate_interval", "5m"))
	if err != nil {
		t.Error(err)
		return
	}
	var labels []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		own, ok := find(selector.Name, known)
		if !ok {
			t.Errorf("no metric is called %s", selector.Name)
		}
		labels = append(append(labels, own...), labelsAdded...)
		for _, matcher := range selector.LabelMatchers {
			if !slices.Contains(append(own, labelsAdded...), matcher.Name) {
				t.Errorf("%s has no label %s", selector.Name, matcher.Name)
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if sum, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range sum.Grouping {
				if !slices.Contains(labels, label) {
					t.Errorf("no metric in %q has the label %s", expr, label)
				}
			}
		}
		return nil
	})
}

// find returns the labels of a metric, which may be a series of a histogram.
func find(name string, known map[string]metric) ([]string, bool) {
	if m, ok := known[name]; ok {
		return m.labels, true
	}
	for _, series := range []string{"_bucket", "_sum", "_count"} {
		if m, ok := known[strings.TrimSuffix(name, series)]; ok {
			return m.labels, true
		}
	}
	return nil, false
}

func TestExpressions(t *testing.T) {
	known := exported(t)
	for _, rule := range alerts(t) {
		t.Run(rule.Alert, func(t *testing.T) { check(t, rule.Expr, known) })
	}
	for _, panel := range panels(t) {
		t.Run(panel.Title, func(t *testing.T) {
			for _, target := range panel.Targets {
				check(t, target.Expr, known)
			}
		})
	}
}

func TestAlerts(t *testing.T) {
	seen := map[string]bool{}
	for _, rule := range alerts(t) {
		t.Run(rule.Alert, func(t *testing.T) {
			if seen[rule.Alert] {
				t.Error("there are two of this name")
			}
			seen[rule.Alert] = true
			if _, err := model.ParseDuration(rule.For); rule.For != "" && err != nil {
				t.Error(err)
			}
			if !slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) {
				t.Errorf("its severity is %q", rule.Labels["severity"])
			}
			for _, name := range []string{"summary", "description"} {
				if rule.Annotations[name] == "" {
					t.Errorf("it has no %s", name)
				}
			}
			if want := runbooks + "docs/runbooks/" + rule.Alert + ".md"; rule.Annotations["runbook_url"] != want {
				t.Errorf("its runbook_url is %q, want %q", rule.Annotations["runbook_url"], want)
			}
			must.Get(os.Stat(page(rule.Alert + ".md")))(t)
		})
	}
	files := must.Get(filepath.Glob(page("IPAM*.md")))(t)
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".md"); !seen[name] {
			t.Errorf("%s is for no alert; there are %v", file, slices.Sorted(maps.Keys(seen)))
		}
	}
}

func page(name string) string { return filepath.Join("..", "..", "docs", "runbooks", name) }

func TestDashboard_PanelsHaveIdentity(t *testing.T) {
	ids := map[int]string{}
	for _, panel := range panels(t) {
		if other, taken := ids[panel.ID]; taken {
			t.Errorf("%q and %q have one ID", other, panel.Title)
		}
		ids[panel.ID] = panel.Title
		if panel.Type != "row" && (len(panel.Targets) == 0 || panel.GridPos.H*panel.GridPos.W == 0) {
			t.Errorf("%q shows nothing", panel.Title)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

func TestRunbooks_LinkToExistingFiles(t *testing.T) {
	files, err := filepath.Glob(page("*.md"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		for _, match := range link.FindAllSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), string(match[1]))); err != nil {
				t.Errorf("%s: %v", filepath.Base(file), err)
			}
		}
	}
}
