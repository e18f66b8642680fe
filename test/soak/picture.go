package main

import (
	"time"

	"github.com/kcp-ipam/ipam/test/soak/plot"
)

// picture is a plot, and the file it goes to.
type picture struct {
	plot.Plot
	file string
}

// pictures are all of them, in order.
func (f *findings) pictures() []picture {
	processes := append(f.named(kindReplica), f.named(kindMember)...)
	list := []picture{
		{f.crowd(), "claims.svg"},
		{f.latency(), "latency.svg"},
		{plot.Plot{Title: "Heap after GC, MiB", Lines: f.course(heap, mib, "", processes...)}, "heap.svg"},
		{plot.Plot{Title: "Resident memory, MiB", Log: true, Lines: f.course(resident, mib, "", append(processes, kindKCP)...)}, "resident.svg"},
		{plot.Plot{Title: "Goroutines", Lines: f.course(goroutines, 1, "", processes...)}, "goroutines.svg"},
		{plot.Plot{Title: "Open files", Lines: f.course(files, 1, "", processes...)}, "files.svg"},
		{plot.Plot{Title: "Database of the ledger, MiB", Lines: append(
			f.course(dbInUse, mib, " in use", f.named(kindMember)...), f.course(dbSize, mib, " file", f.named(kindMember)...)...)}, "etcd.svg"},
	}
	for i := range list {
		f.frame(&list[i].Plot)
	}
	return list
}

// frame adds what all plots have: the end, the strikes and the calms.
func (f *findings) frame(p *plot.Plot) {
	p.End = f.since(f.calms[len(f.calms)-1].to)
	for _, s := range f.strikes {
		p.Marks = append(p.Marks, plot.Mark{At: f.since(s.at), Kind: s.victim.kind + " struck"})
	}
	for _, c := range f.calms {
		p.Bands = append(p.Bands, plot.Band{From: f.since(c.from), To: f.since(c.to)})
	}
	for i, line := range p.Lines {
		p.Lines[i].Points = before(line.Points, p.End)
	}
}

// before leaves out what comes after the end.
func before(points []plot.Point, end time.Duration) []plot.Point {
	for i, point := range points {
		if point.At > end {
			return points[:i]
		}
	}
	return points
}

// course is a metric of processes, each a line that is broken while it was away.
func (f *findings) course(metric string, unit float64, suffix string, processes ...string) []plot.Line {
	lines := make([]plot.Line, 0, len(processes))
	for _, name := range processes {
		line := plot.Line{Name: name + suffix, Gap: 2*f.sample + time.Second, Dashed: suffix == " file" || len(lines) >= f.replicas}
		if known := f.courses[name]; known != nil {
			for _, r := range known.readings {
				line.Points = append(line.Points, plot.Point{At: f.since(r.at), Value: r.values[metric] / unit})
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// crowd are the claims that are held, and those that wait.
func (f *findings) crowd() plot.Plot {
	holding, waiting := plot.Line{Name: "held"}, plot.Line{Name: "waiting"}
	for _, c := range f.crowds {
		holding.Points = append(holding.Points, plot.Point{At: f.since(c.at), Value: float64(c.held)})
		waiting.Points = append(waiting.Points, plot.Point{At: f.since(c.at), Value: float64(c.waiting)})
	}
	return plot.Plot{Title: "Claims", Lines: []plot.Line{holding, waiting}}
}

// latency is how long claims took that were bound between two looks.
func (f *findings) latency() plot.Plot {
	lines := []plot.Line{{Name: "p50", Gap: 4 * f.sample}, {Name: "p95", Gap: 4 * f.sample}}
	next := 0
	for _, c := range f.crowds {
		var took []float64
		for ; next < len(f.binds) && f.binds[next].at.Before(c.at); next++ {
			took = append(took, f.binds[next].took.Seconds())
		}
		if len(took) == 0 {
			continue
		}
		for i, q := range []float64{0.5, 0.95} {
			lines[i].Points = append(lines[i].Points, plot.Point{At: f.since(c.at), Value: quantile(took, q)})
		}
	}
	return plot.Plot{Title: "Create → bound, s", Log: true, Lines: lines}
}
