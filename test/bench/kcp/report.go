package kcp

import (
	"fmt"
	"strings"

	"github.com/kcp-ipam/ipam/test/bench/page"
	"github.com/kcp-ipam/ipam/test/framework/local"
)

// figures are the columns of the table, in their order.
var figures = []struct {
	name   string
	of     func(round) float64
	format string
}{
	{"answers/s", func(r round) float64 { return r.rate }, "%.0f"},
	{"p50 ms", func(r round) float64 { return r.p50 }, "%.1f"},
	{"p95 ms", func(r round) float64 { return r.p95 }, "%.1f"},
	{"p99 ms", func(r round) float64 { return r.p99 }, "%.1f"},
	{"controller CPU ms", func(r round) float64 { return r.controller }, "%.1f"},
	{"kcp CPU ms", func(r round) float64 { return r.kcp }, "%.1f"},
	{"records behind", func(r round) float64 { return r.backlog }, "%.0f"},
	{"behind for ms", func(r round) float64 { return r.drained }, "%.0f"},
}

// report returns the section of the page.
func report(opts *options, contests []contest) string {
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`", command(opts))
	fmt.Fprintf(&b, "\n\n%s; kcp %s with its etcd on the same machine. ", page.Machine(), local.KCPVersion())
	fmt.Fprintf(&b, "Medians of %d rounds of %g s, quartiles in brackets; ratios are of neighbouring rounds.\n\n", opts.rounds, opts.roundSeconds)
	b.WriteString("| clients | create → |")
	for _, figure := range figures {
		fmt.Fprintf(&b, " %s |", figure.name)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("--:|", len(figures)) + "\n")
	for _, c := range contests {
		c.write(&b)
	}
	for _, c := range contests {
		if c.title == oneClient {
			c.writeParts(&b)
		}
	}
	return b.String()
}

// write adds the rows of a contest to the table.
func (c contest) write(b *strings.Builder) {
	for _, who := range c.contestants {
		fmt.Fprintf(b, "| %s | %s |", c.title, who.name)
		for _, figure := range figures {
			values := make([]float64, len(who.rounds))
			for i, round := range who.rounds {
				values[i] = figure.of(round)
			}
			fmt.Fprintf(b, " %s |", page.Spread(figure.format, values))
		}
		b.WriteString("\n")
	}
	for _, r := range c.ratios {
		fmt.Fprintf(b, "| %s | **%s** |", c.title, r.name)
		of, to := c.contestants[r.of].rounds, c.contestants[r.to].rounds
		for _, figure := range figures {
			fmt.Fprintf(b, " %s |", quotients(of, to, figure.of))
		}
		b.WriteString("\n")
	}
}

// quotients returns the ratios of a figure, round by round; a dash where it was zero.
func quotients(of, to []round, figure func(round) float64) string {
	values := make([]float64, len(of))
	for i := range of {
		if figure(to[i]) == 0 {
			return "–"
		}
		values[i] = figure(of[i]) / figure(to[i])
	}
	return page.Spread("%.2f", values)
}

// command is what gives this table again.
func command(opts *options) string {
	clients := strings.Trim(strings.ReplaceAll(fmt.Sprint(opts.clients), " ", ","), "[]")
	line := fmt.Sprintf("go run ./test/bench kcp --rounds %d --round-seconds %g --clients %s", opts.rounds, opts.roundSeconds, clients)
	if only := opts.only.String(); only != "" {
		line += fmt.Sprintf(" --only '%s'", only)
	}
	return line
}
