package scale

import (
	"fmt"
	"strings"

	"github.com/kcp-ipam/ipam/test/bench/page"
)

// report is the section of the page.
func report(opts *options, steps []*step) string {
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`\n\n%s. The machine runs kcp and the load, too.\n\n", command(opts), page.Machine())
	writeSizes(&b, steps)
	writeStarts(&b, steps)
	writeSamples(&b, steps)
	return b.String()
}

func writeSizes(b *strings.Builder, steps []*step) {
	b.WriteString("| workspaces | claims | resident MiB | live heap MiB | goroutines | live KiB per workspace | live KiB per claim | idle, % of a processor |\n")
	b.WriteString("|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, s := range steps {
		fmt.Fprintf(b, "| %d | %d | %.0f | %.0f | %.0f | %.1f | %.1f | %.1f |\n", s.workspaces, s.claims,
			mib(s.full.resident), mib(s.full.live), s.full.goroutines,
			(s.bound.live-s.before.live)/1024/float64(s.newcomers),
			(s.full.live-s.bound.live)/1024/float64(s.filled), s.idle*100)
	}
	b.WriteString("\n")
}

func writeStarts(b *strings.Builder, steps []*step) {
	b.WriteString("| workspaces | claims | start of | ready after s | every claim seen after s | writes | resident MiB | live heap MiB | goroutines |\n")
	b.WriteString("|--:|--:|---|--:|--:|--:|--:|--:|--:|\n")
	row := func(s *step, who string, begin begin, size size) {
		fmt.Fprintf(b, "| %d | %d | %s | %.1f | %.1f | %.0f | %.0f | %.0f | %.0f |\n", s.workspaces, s.claims, who,
			begin.ready.Seconds(), begin.settled.Seconds(), begin.writes, mib(size.resident), mib(size.live), size.goroutines)
	}
	for _, s := range steps {
		if s.bare != nil {
			row(s, "bare controller", s.bare.begin, s.bare.size)
		}
		row(s, "ipam-controller", s.begin, s.restarted)
	}
	b.WriteString("\n")
}

func writeSamples(b *strings.Builder, steps []*step) {
	b.WriteString("| workspaces | claims | clients | p50 ms | p95 ms | controller CPU ms | kcp CPU ms |\n")
	b.WriteString("|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, s := range steps {
		for _, c := range s.samples {
			fmt.Fprintf(b, "| %d | %d | %d | %.1f | %.1f | %.1f | %.1f |\n", s.workspaces, s.claims, c.clients, c.p50, c.p95, c.controller, c.kcp)
		}
	}
}

func mib(bytes float64) float64 { return bytes / (1 << 20) }

// command is what gives these tables again.
func command(opts *options) string {
	numbers := func(n []int) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint(n), " ", ","), "[]") }
	return fmt.Sprintf("go run ./test/bench scale --workspaces %s --claims %d --clients %s", numbers(opts.workspaces), opts.claims, numbers(opts.clients))
}
