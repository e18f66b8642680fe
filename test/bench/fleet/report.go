package fleet

import (
	"fmt"
	"strings"

	"github.com/kcp-ipam/ipam/test/bench/page"
)

// report returns the section of the page.
func report(opts *options, steps []*step) string {
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`\n\n%s. The machine runs the stand-in and the load, too.\n\n", command(opts), page.Machine())
	b.WriteString("| workspaces | claims | live heap MiB | resident MiB | goroutines | live KiB per workspace | live KiB per claim | resident KiB per claim |\n")
	b.WriteString("|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, s := range steps {
		more := float64(s.claims - s.workspaces)
		fmt.Fprintf(&b, "| %d | %d | %.0f | %.0f | %.0f | %.1f | %.2f | %.2f |\n", s.workspaces, s.claims,
			s.full.live/(1<<20), s.full.resident/(1<<20), s.full.goroutines,
			(s.empty.live-s.one.live)/1024/float64(s.workspaces-shards),
			(s.full.live-s.empty.live)/1024/more, (s.full.resident-s.empty.resident)/1024/more)
	}
	b.WriteString("\n| workspaces | claims | start → CREATE is answered, s | start → a claim is bound, s | start → every claim seen, s | of a processor, s | requests until then | killed, started → CREATE is answered, s | a claim is bound, s | idle, % of a processor | sweep s | verification s | of a processor, s |\n")
	b.WriteString("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, s := range steps {
		fmt.Fprintf(&b, "| %d | %d | %.1f | %.1f | %.1f | %.1f | %d | %.1f | %.1f | %.1f | %.2f | %.1f | %.1f |\n", s.workspaces, s.claims, s.created.Seconds(), s.bound.Seconds(),
			s.seen.Seconds(), s.work, s.requests, s.createdAgain.Seconds(), s.again.Seconds(), s.idle*100, s.sweep, s.verification.Seconds(), s.verificationWork)
	}
	fmt.Fprintf(&b, "\n| workspaces | claims | a claim, %d clients: p50 ms | p95 ms | CPU ms | garbage KiB | claims of each workspace that leaves | requests for each | all are freed after s |\n", clients)
	b.WriteString("|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, s := range steps {
		fmt.Fprintf(&b, "| %d | %d | %.1f | %.1f | %.1f | %.0f | %d | %.0f | %.1f |\n", s.workspaces, s.claims, ms(s.p50), ms(s.p95), s.cpu*1000, s.garbage/1024,
			s.leftClaims, s.leftReads, s.left.Seconds())
	}
	return b.String()
}

// command is what gives these tables again.
func command(opts *options) string {
	numbers := func(n []int) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint(n), " ", ","), "[]") }
	line := fmt.Sprintf("go run ./test/bench fleet --workspaces %s --claims %s", numbers(opts.workspaces), numbers(opts.claims))
	if opts.external {
		line += " --external-etcd"
	}
	return line
}
