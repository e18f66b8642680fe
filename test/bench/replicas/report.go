package replicas

import (
	"fmt"
	"strings"

	"github.com/kcp-ipam/ipam/test/bench/page"
	"github.com/kcp-ipam/ipam/test/framework/local"
)

// report returns the section of the page.
func report(opts *options, losses []*loss) string {
	var b strings.Builder
	fmt.Fprintf(&b, "`go run ./test/bench replicas --failovers %d --held %d`\n\n", opts.failovers, opts.held)
	fmt.Fprintf(&b, "%s; kcp %s with its etcd, and the three members, on the same machine. ", page.Machine(), local.KCPVersion())
	fmt.Fprintf(&b, "With %d claims held, %d times each; medians, quartiles in brackets.\n\n", opts.held, opts.failovers)
	b.WriteString("| the active replica is lost | seconds without an answer to CREATE | longest | seconds without a record | longest |\n|---|--:|--:|--:|--:|\n")
	for _, l := range losses {
		answers, records := make([]float64, len(l.gaps)), make([]float64, len(l.gaps))
		for i, gap := range l.gaps {
			answers[i], records[i] = gap.answer, gap.record
		}
		fmt.Fprintf(&b, "| %s | %s | %.2f | %s | %.2f |\n", l.name, page.Spread("%.2f", answers), page.Quantile(answers, 1),
			page.Spread("%.2f", records), page.Quantile(records, 1))
	}
	return b.String()
}
