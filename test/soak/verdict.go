package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// figure is something of a process that must not grow.
type figure struct {
	name   string
	metric string
	unit   float64 // one of the figure, in units of the metric
	format string
	// It may grow by this share, and by so much more.
	share, slack float64
	// tenure is how much more it may grow by for each claim that ends.
	tenure float64
}

const (
	mib = 1 << 20
	// tenureMiB is what the ledger's history keeps of a claim that ended: 0.4 KiB, in pages of which
	// three quarters may be free once all else that was written with it is compacted.
	tenureMiB = 3.0 / 1024
)

// figures are what is judged, by role. What they may grow by leaves room for what varies
// between calms, of processes of which some are old and some were just started.
var figures = map[string][]figure{
	kindReplica: {
		{"heap after GC, MiB", heap, mib, "%.1f", 0.10, 4, 0},
		{"resident memory, MiB", resident, mib, "%.0f", 0.25, 16, 0},
		{"goroutines", goroutines, 1, "%.0f", 0.05, 30, 0},
		{"open files", files, 1, "%.0f", 0.10, 32, 0}, // kcp keeps the connections of a burst of CREATEs for 90 s
		{"metric series", series, 1, "%.0f", 0.10, 50, 0},
	},
	kindMember: {
		{"heap after GC, MiB", heap, mib, "%.1f", 0.10, 8, 0},
		{"resident memory, MiB", resident, mib, "%.0f", 0.25, 32, 0},
		{"goroutines", goroutines, 1, "%.0f", 0.10, 40, 0},
		{"open files", files, 1, "%.0f", 0.10, 10, 0},
		{"database file, MiB", dbSize, mib, "%.2f", 0.25, 4, tenureMiB},
		{"database in use, MiB", dbInUse, mib, "%.2f", 0.10, 0.5, tenureMiB},
	},
}

// change is what a figure of a process was in the first calms, and in the last.
type change struct {
	process     string
	figure      figure
	first, last float64 // medians
	// usual is the highest first of all processes of the role, which do the same work: one
	// that was struck begins with less, and comes up to what others have who were not.
	usual float64
	ended float64 // how many claims ended between
}

// grown reports whether it is more than it may be.
func (c change) grown() bool {
	return c.last > c.usual*(1+c.figure.share)+c.figure.slack+c.ended*c.figure.tenure
}

func (c change) String() string {
	return fmt.Sprintf("%s: %s from "+c.figure.format+" to "+c.figure.format, c.process, c.figure.name, c.first, c.last)
}

// changes compares the calms of the first third with those of the last.
func changes(calms []calm, role string, processes []string) []change {
	list := make([]change, 0, len(figures[role])*len(processes))
	third := len(calms) / 3
	first, last := calms[:third], calms[len(calms)-third:]
	for _, f := range figures[role] {
		row := make([]change, len(processes))
		usual := 0.0
		for i, p := range processes {
			row[i] = change{process: p, figure: f, first: f.level(first, p), last: f.level(last, p), ended: ended(last) - ended(first)}
			usual = max(usual, row[i].first)
		}
		for i := range row {
			row[i].usual = usual
		}
		list = append(list, row...)
	}
	return list
}

// level is the median of a figure of a process.
func (f figure) level(calms []calm, process string) float64 {
	var values []float64
	for _, c := range calms {
		for _, r := range c.readings[process] {
			values = append(values, r.values[f.metric]/f.unit)
		}
	}
	return quantile(values, 0.5)
}

// ended is the median of how many claims had ended.
func ended(calms []calm) float64 {
	values := make([]float64, 0, len(calms))
	for _, c := range calms {
		values = append(values, float64(c.ended))
	}
	return quantile(values, 0.5)
}

// quantile is the nearest of values; 0 of none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

// findings are all that the soak has found.
type findings struct {
	*options
	*record
	wrong         []string // with the history of the claims
	left          string   // what was there when all was deleted; empty: nothing
	given, reused int      // claims that were bound, and of them to the block of a former one
}

// verdict is nil if nothing was wrong and nothing has grown.
func (f *findings) verdict() error {
	problems := f.problems()
	if len(problems) == 0 {
		return nil
	}
	return errors.New("broken:\n  " + strings.Join(problems, "\n  "))
}

func (f *findings) problems() []string {
	problems := slices.Clone(f.wrong)
	if f.left != "" {
		problems = append(problems, f.left)
	}
	for _, role := range []string{kindReplica, kindMember} {
		for _, c := range changes(f.calms, role, f.named(role)) {
			if c.grown() {
				problems = append(problems, c.String())
			}
		}
	}
	for replica, n := range f.endings {
		if !slices.Contains(f.controllerFlags, leaderElect) { // who loses the lease ends
			problems = append(problems, fmt.Sprintf("%s has ended by itself, %d times", replica, n))
		}
	}
	return problems
}

// leaderElect is the flag by which one replica works at a time.
const leaderElect = "--leader-elect"

// named are the processes of a role.
func (f *findings) named(role string) []string {
	n, name := f.replicas, replicaName
	if role == kindMember {
		n, name = members, memberName
	}
	names := make([]string, 0, n)
	for i := range n {
		names = append(names, name(i))
	}
	return names
}
