package observability

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	_ "github.com/kcp-ipam/ipam/controllers" // registers the metrics of all walks
	"github.com/kcp-ipam/ipam/test/must"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md again")

// metric is the description of a metric. A metric that is known only from its values has no labels here.
type metric struct {
	help   string
	labels []string
}

var desc = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: ("(?:[^"\\]|\\.)*"), .*variableLabels: \{([^}]*)\}\}$`)

// exported returns the metrics that the controller has.
func exported(t *testing.T) map[string]metric {
	t.Helper()
	ledger := must.Get(allocator.Open(t.Context(), etcdtest.New(t).Client(), allocator.Options{Registerer: metrics.Registry}))(t)
	t.Cleanup(func() { ledger.Close() })
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		metrics.Registry.(prometheus.Collector).Describe(descs)
	}()
	known := map[string]metric{}
	for d := range descs {
		match := desc.FindStringSubmatch(d.String())
		if match == nil {
			t.Fatalf("%s is not read", d)
		}
		help := must.Get(strconv.Unquote(match[2]))(t)
		known[match[1]] = metric{help, strings.FieldsFunc(match[3], func(r rune) bool { return r == ',' })}
	}
	etcd := prometheus.NewRegistry()
	etcd.MustRegister(embedetcd.Metrics())
	families := must.Get(prometheus.Gatherers{metrics.Registry, etcd}.Gather())(t)
	for _, family := range families {
		if _, ok := known[family.GetName()]; !ok {
			known[family.GetName()] = metric{help: family.GetHelp()}
		}
	}
	return known
}

const (
	tableBegins = "<!-- metrics -->\n"
	tableEnds   = "<!-- /metrics -->\n"
)

// The table of docs/metrics.md lists the controller's own metrics as they describe themselves.
func TestDocs_ListTheMetrics(t *testing.T) {
	known := exported(t)
	table := "\n| Metric | Labels | |\n|---|---|---|\n"
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if m := known[name]; strings.HasPrefix(name, "ipam_") {
			table += fmt.Sprintf("| `%s` | %s | %s |\n", name, strings.Join(m.labels, ", "), m.help)
		}
	}
	table += "\n"
	file := filepath.Join("..", "..", "docs", "metrics.md")
	text := must.Get(os.ReadFile(file))(t)
	above, rest, begins := strings.Cut(string(text), tableBegins)
	was, below, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		t.Fatalf("%s has no table between %q and %q", file, tableBegins, tableEnds)
	}
	if *update {
		must.Do(t, os.WriteFile(file, []byte(above+tableBegins+table+tableEnds+below), 0o600))
		was = table
	}
	if diff := cmp.Diff(table, was); diff != "" {
		t.Errorf("the table of %s differs (-want +got); -update writes it again:\n%s", file, diff)
	}
}

var named = regexp.MustCompile(`\b(ipam|etcd|workqueue|rest_client|controller_runtime|leader_election)_[a-z][a-z_]*`)

// The metrics that the pages name exist.
func TestDocs_NameMetricsThatExist(t *testing.T) {
	known := exported(t)
	pages, err := filepath.Glob(page("*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	above := must.Get(filepath.Glob(filepath.Join("..", "..", "docs", "*.md")))(t)
	for _, file := range append(pages, above...) {
		text := must.Get(os.ReadFile(file))(t)
		for _, name := range named.FindAllString(string(text), -1) {
			if _, ok := find(name, known); !ok {
				t.Errorf("%s: no metric is called %s", filepath.Base(file), name)
			}
		}
	}
}

var (
	histogram = regexp.MustCompile(`HistogramOpts\{\s*(?:Namespace: "\w+", )?Name:\s*"(ipam_\w+)"`)
	sentence  = regexp.MustCompile(`(?s)only grow\.(.*?)are histograms`)
)

// The page names the histograms before it calls all others gauges.
func TestDocs_NameTheHistograms(t *testing.T) {
	made := map[string]bool{}
	for _, root := range []string{"allocator", "cmd", "controllers"} {
		must.Do(t, filepath.WalkDir(filepath.Join("..", "..", root), func(file string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			source, err := os.ReadFile(file)
			for _, match := range histogram.FindAllStringSubmatch(string(source), -1) {
				made[match[1]] = true
			}
			return err
		}))
	}
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md")))(t)
	shown := map[string]bool{}
	for _, name := range named.FindAllString(sentence.FindString(string(text)), -1) {
		shown[name] = true
	}
	if diff := cmp.Diff(made, shown); diff != "" {
		t.Errorf("docs/metrics.md names other histograms than the code has (-code +page):\n%s", diff)
	}
}
