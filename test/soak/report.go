package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/bench/page"
)

// section is the part of the page that this program writes.
const section = "soak"

// publish writes the tables to the page, and all samples to their file, if there is one.
func (f *findings) publish() error {
	if f.samples == "" {
		return harness.Publish(f.out, section, f.report())
	}
	file, err := os.Create(f.samples)
	if err != nil {
		return err
	}
	return errors.Join(f.writeSamples(file), file.Close(), harness.Publish(f.out, section, f.report()))
}

// report is the section of the page.
func (f *findings) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "`go run ./test/soak --duration %s --seed %d --workspaces %d --rate %g --hold %d --rounds %d --replicas %d --keep %s",
		f.duration, f.seed, f.workspaces, f.rate, f.hold, f.rounds, f.replicas, f.keep)
	for _, flag := range f.controllerFlags {
		fmt.Fprintf(&b, " --controller-flag %s", flag)
	}
	fmt.Fprintf(&b, "`\n\n%s; kcp, %d members of etcd with fsync, and the load on the same machine.\n\n", page.Machine(), members)
	f.writeVerdict(&b)
	f.writeTraffic(&b)
	f.writeStrikes(&b)
	f.writeChanges(&b, kindReplica, "replica-1 is never struck. ")
	f.writeChanges(&b, kindMember, "")
	return b.String()
}

func (f *findings) writeVerdict(b *strings.Builder) {
	problems := f.problems()
	if len(problems) == 0 {
		b.WriteString("**Nothing was wrong, and nothing has grown.**\n\n")
		return
	}
	b.WriteString("**Broken:**\n\n")
	for _, problem := range problems {
		fmt.Fprintf(b, "- %s\n", problem)
	}
	b.WriteString("\n")
}

func (f *findings) writeTraffic(b *strings.Builder) {
	b.WriteString("| | |\n|---|---|\n")
	fmt.Fprintf(b, "| claims bound, and their addresses checked at every revision of kcp | %d, %d of them to the block of a former one |\n", f.given, f.reused)
	fmt.Fprintf(b, "| claims held in each of %d calms | %d in %d workspaces; verified, and nothing found |\n", len(f.calms), f.calms[0].claims, f.workspaces)
	quiet, struck := f.latencies()
	fmt.Fprintf(b, "| create → bound while all is up | %s |\n", spread(quiet))
	fmt.Fprintf(b, "| create → bound while something is away | %s |\n", spread(struck))
	fmt.Fprintf(b, "| in the end, when all is deleted | %s |\n\n", cmp.Or(f.left, "the ledger is empty"))
}

// spread sums up how long claims took.
func spread(seconds []float64) string {
	if len(seconds) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d claims; p50 %.2f s, p95 %.2f s, p99 %.2f s, longest %.1f s", len(seconds),
		quantile(seconds, 0.5), quantile(seconds, 0.95), quantile(seconds, 0.99), slices.Max(seconds))
}

// latencies are how many seconds claims took, those apart that were under way while
// something was away.
func (f *findings) latencies() (quiet, struck []float64) {
	for _, claim := range f.binds {
		away := slices.ContainsFunc(f.strikes, func(s strike) bool {
			return claim.at.After(s.at) && claim.at.Add(-claim.took).Before(s.at.Add(s.took))
		})
		if away {
			struck = append(struck, claim.took.Seconds())
			continue
		}
		quiet = append(quiet, claim.took.Seconds())
	}
	return quiet, struck
}

func (f *findings) writeStrikes(b *strings.Builder) {
	b.WriteString("| struck | SIGKILL | SIGTERM | ready again after, s |\n|---|--:|--:|--:|\n")
	for _, kind := range []string{kindKCP, kindMember, kindReplica} {
		var killed, stopped int
		took := make([]float64, 0, len(f.strikes))
		for _, s := range f.strikes {
			switch {
			case s.victim.kind != kind:
				continue
			case s.killed:
				killed++
			default:
				stopped++
			}
			took = append(took, s.took.Seconds())
		}
		if len(took) > 0 {
			fmt.Fprintf(b, "| %s | %d | %d | %.1f (%.1f–%.1f) |\n", kind, killed, stopped, quantile(took, 0.5), slices.Min(took), slices.Max(took))
		}
	}
	b.WriteString("\n")
}

// writeChanges is the table of what processes of a role were in the first third, and in the last.
func (f *findings) writeChanges(b *strings.Builder, role, note string) {
	names := f.named(role)
	fmt.Fprintf(b, "| first third → last | %s | may grow by |\n|---|%s--:|\n", strings.Join(names, " | "), strings.Repeat("--:|", len(names)))
	list := changes(f.calms, role, names)
	for row := range slices.Chunk(list, len(names)) {
		figure := row[0].figure
		fmt.Fprintf(b, "| %s |", figure.name)
		for _, c := range row {
			cell := fmt.Sprintf(figure.format+" → "+figure.format, c.first, c.last)
			if c.grown() {
				cell = "**" + cell + "**"
			}
			fmt.Fprintf(b, " %s |", cell)
		}
		fmt.Fprintf(b, " %.0f %% + %g", figure.share*100, figure.slack)
		if figure.tenure > 0 {
			fmt.Fprintf(b, " + %.0f KiB for each of %.0f claims that ended", figure.tenure*1024, row[0].ended)
		}
		b.WriteString(" |\n")
	}
	fmt.Fprintf(b, "\n%sMedians over the calms. What each may grow by is beyond the highest of its row in the first third: a "+
		"process that was struck starts again, with less.\n\n", note)
}

// since is the time in the soak.
func (f *findings) since(at time.Time) time.Duration { return at.Sub(f.began) }
