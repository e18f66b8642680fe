package main

import (
	"encoding/csv"
	"io"
	"strconv"
	"time"
)

// writeSamples writes all that was measured over time as CSV: who, what, when and how much.
// Times and values of claims and strikes are in seconds; metrics have the units of Prometheus.
func (f *findings) writeSamples(to io.Writer) error {
	w := csv.NewWriter(to)
	row := func(subject, figure string, at time.Time, value float64) {
		_ = w.Write([]string{
			strconv.FormatFloat(f.since(at).Seconds(), 'f', 1, 64), subject, figure, strconv.FormatFloat(value, 'g', 6, 64),
		}) // Error says what went wrong
	}
	_ = w.Write([]string{"seconds", "subject", "figure", "value"})
	for _, c := range f.crowds {
		row("claims", "held", c.at, float64(c.held))
		row("claims", "waiting", c.at, float64(c.waiting))
	}
	for _, b := range f.binds {
		row("claims", "create_to_bound", b.at, b.took.Seconds())
	}
	for _, s := range f.strikes {
		row(s.victim.name, "struck", s.at, s.took.Seconds())
	}
	for _, c := range f.calms {
		row("calm", "lasted", c.from, c.to.Sub(c.from).Seconds())
	}
	for process, course := range f.courses {
		for _, r := range course.readings {
			for metric, value := range r.values {
				row(process, metric, r.at, value)
			}
		}
	}
	w.Flush()
	return w.Error()
}
