package kcp

import (
	"fmt"
	"strings"

	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/bench/page"
)

// parts are stretches of a CREATE's time that kcp and the controller measure themselves, each
// indented below the one that it is a part of.
var parts = []struct {
	name       string
	controller bool // measures it; else kcp does
	metric     string
	labels     []string
}{
	{"kcp serves the CREATE", false, "apiserver_request_duration_seconds", []string{"resource", "ipclaims", "verb", "POST"}},
	{"· its etcd stores the claim", false, "etcd_request_duration_seconds", []string{"resource", "ipclaims", "operation", "create"}},
	{"· it waits for the webhook", false, "apiserver_admission_webhook_admission_duration_seconds", []string{"operation", "CREATE"}},
	{"· · the controller answers", true, "ipam_create_answer_seconds", nil},
	{"· · · etcd takes the ledger's transaction", true, "ipam_ledger_transaction_seconds", nil},
}

// partsOf returns the means of the parts between two readings, in milliseconds; 0 where there was none.
func partsOf(before, after usage) []float64 {
	means := make([]float64, len(parts))
	for i, part := range parts {
		began, ended := before.kcpMetrics, after.kcpMetrics
		if part.controller {
			began, ended = before.controllerMetrics, after.controllerMetrics
		}
		sumBefore, countBefore := began.Observed(part.metric, part.labels...)
		sumAfter, countAfter := ended.Observed(part.metric, part.labels...)
		if n := countAfter - countBefore; n > 0 {
			means[i] = 1000 * (sumAfter - sumBefore) / n
		}
	}
	return means
}

// writeParts adds a table of where the time of a contest's CREATEs goes.
func (c contest) writeParts(b *strings.Builder) {
	fmt.Fprintf(b, "\nWhere the time of a CREATE goes, with %s: means of a round in ms, by the metrics of kcp and of the controller.\n\n| |", c.title)
	for _, who := range c.contestants {
		fmt.Fprintf(b, " %s |", who.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(c.contestants)) + "\n")
	for i, part := range parts {
		fmt.Fprintf(b, "| %s |", part.name)
		for _, who := range c.contestants {
			fmt.Fprintf(b, " %s |", partCell(who.rounds, i))
		}
		b.WriteString("\n")
	}
}

// partCell is one part in all rounds; a dash if it was in none.
func partCell(rounds []round, part int) string {
	values := make([]float64, len(rounds))
	var sum float64
	for i, r := range rounds {
		values[i] = r.parts[part]
		sum += values[i]
	}
	if sum == 0 {
		return "–"
	}
	return page.Spread("%.1f", values)
}

// readMetrics reads a program's metrics.
func readMetrics(text string, err error) (harness.Metrics, error) {
	if err != nil {
		return nil, err
	}
	return harness.ParseMetrics(text)
}
