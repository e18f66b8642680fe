package replicas

import (
	"context"
	"fmt"
	"strings"

	"github.com/kcp-ipam/ipam/test/bench/page"
	"github.com/kcp-ipam/ipam/test/framework/local"
)

// result is all that was measured.
type result struct {
	works  []*work
	losses []*loss
}

// measure measures everything.
func (s *stage) measure(ctx context.Context) (result, error) {
	works, err := s.play(ctx)
	if err != nil {
		return result{}, err
	}
	losses, err := s.fail(ctx)
	return result{works, losses}, err
}

// figures are the columns of the first table, in their order.
var figures = []struct {
	name   string
	of     func(round) float64
	format string
}{
	{"claims/s", func(r round) float64 { return r.rate }, "%.0f"},
	{"p50 ms", func(r round) float64 { return r.p50 }, "%.1f"},
	{"p95 ms", func(r round) float64 { return r.p95 }, "%.1f"},
	{"controllers CPU ms", func(r round) float64 { return r.controllers }, "%.1f"},
	{"kcp CPU ms", func(r round) float64 { return r.kcp }, "%.1f"},
	{"controllers MiB", func(r round) float64 { return r.memory }, "%.0f"},
	{"conflicts in 1,000", func(r round) float64 { return r.conflicts }, "%.1f"},
}

// report returns the section of the page.
func (r result) report(opts *options) string {
	var b strings.Builder
	clients := strings.Trim(strings.ReplaceAll(fmt.Sprint(opts.clients), " ", ","), "[]")
	fmt.Fprintf(&b, "`go run ./test/bench replicas --rounds %d --round-seconds %g --clients %s --failovers %d --held %d`",
		opts.rounds, opts.roundSeconds, clients, opts.failovers, opts.held)
	if opts.date != "" {
		fmt.Fprintf(&b, ", %s", opts.date)
	}
	fmt.Fprintf(&b, "\n\n%s; kcp %s with its etcd, and the three members, on the same machine. ", page.Machine(), local.KCPVersion())
	fmt.Fprintf(&b, "Medians of %d rounds of %g s, quartiles in brackets.\n\n", opts.rounds, opts.roundSeconds)
	b.WriteString("| clients | controllers |")
	for _, figure := range figures {
		fmt.Fprintf(&b, " %s |", figure.name)
	}
	b.WriteString("\n|--:|---|" + strings.Repeat("--:|", len(figures)) + "\n")
	for _, w := range r.works {
		w.write(&b)
	}
	fmt.Fprintf(&b, "\nWith %d claims held, %d times each:\n\n", opts.held, opts.failovers)
	b.WriteString("| the active replica is lost | seconds without an answer to CREATE | longest | seconds without a record | longest |\n|---|--:|--:|--:|--:|\n")
	for _, l := range r.losses {
		answers, records := make([]float64, len(l.gaps)), make([]float64, len(l.gaps))
		for i, gap := range l.gaps {
			answers[i], records[i] = gap.answer, gap.record
		}
		fmt.Fprintf(&b, "| %s | %s | %.2f | %s | %.2f |\n", l.name, page.Spread("%.2f", answers), page.Quantile(answers, 1),
			page.Spread("%.2f", records), page.Quantile(records, 1))
	}
	return b.String()
}

// write adds a row to the first table.
func (w *work) write(b *strings.Builder) {
	name := "one"
	if w.team.size > 1 {
		name = fmt.Sprintf("%d, one leads", w.team.size)
	}
	fmt.Fprintf(b, "| %d | %s |", w.clients, name)
	for _, figure := range figures {
		values := make([]float64, len(w.rounds))
		for i, round := range w.rounds {
			values[i] = figure.of(round)
		}
		fmt.Fprintf(b, " %s |", page.Spread(figure.format, values))
	}
	b.WriteString("\n")
}
