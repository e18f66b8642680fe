// Package plot draws lines over time as SVG, for a page of Markdown: with axes and
// units, a legend, marks where something happened, and bands where all was calm.
package plot

import (
	"fmt"
	"html"
	"math"
	"strings"
	"time"
)

// Plot is one picture. The zero value draws empty axes.
type Plot struct {
	// Title says what is shown, its unit included.
	Title string
	// Log has the values on a logarithmic axis. Those that are not above zero are left out.
	Log bool
	// End is where the axis of time ends; it begins at zero.
	End   time.Duration
	Lines []Line
	Marks []Mark
	Bands []Band
}

// Line is the course of one value. Where two points are further apart than Gap, the
// line is broken; zero never breaks it.
type Line struct {
	Name   string
	Dashed bool
	Gap    time.Duration
	Points []Point
}

// Point is a value at a time.
type Point struct {
	At    time.Duration
	Value float64
}

// Mark is a moment at which something of a kind happened.
type Mark struct {
	At   time.Duration
	Kind string
}

// Band is a time that is shaded.
type Band struct{ From, To time.Duration }

const (
	width, height          = 860.0, 330.0
	left, right            = 62.0, 200.0 // the legend is at the right
	top, bottom            = 46.0, 40.0
	innerWidth, innerDepth = width - left - right, height - top - bottom
	mostPoints             = 360 // of a line; more could not be told apart
)

// colours can be told apart by the colour-blind, too (Okabe and Ito).
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

// SVG draws the plot.
func (p Plot) SVG() []byte {
	d := &drawing{Plot: p, value: newAxis(p)}
	d.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12" fill="#333">`, width, height)
	d.add(`<rect width="100%%" height="100%%" fill="#fff"/>`)
	d.add(`<text x="%.0f" y="18" font-size="14" font-weight="bold">%s</text>`, left, html.EscapeString(p.Title))
	for _, b := range p.Bands {
		d.add(`<rect x="%.1f" y="%.0f" width="%.1f" height="%.0f" fill="#eef3ee"/>`, d.x(b.From), top, d.x(b.To)-d.x(b.From), innerDepth)
	}
	d.axes()
	d.lines()
	d.marks()
	d.legend()
	d.add(`</svg>`)
	return []byte(d.String())
}

// drawing is a plot in the making.
type drawing struct {
	Plot
	strings.Builder
	value axis
}

func (d *drawing) add(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

// x is where a time is drawn.
func (d *drawing) x(at time.Duration) float64 {
	return left + innerWidth*float64(at)/math.Max(float64(d.End), 1)
}

// y is where a value is drawn.
func (d *drawing) y(value float64) float64 { return top + innerDepth*(1-d.value.share(value)) }

func (d *drawing) axes() {
	for _, tick := range d.value.ticks {
		y := d.y(tick)
		d.add(`<path d="M%.0f %.1fh%.0f" stroke="#ddd"/>`, left, y, innerWidth)
		d.add(`<text x="%.0f" y="%.1f" text-anchor="end">%s</text>`, left-6, y+4, label(tick))
	}
	step := step(d.End.Minutes(), 8)
	for minute := 0.0; step > 0 && minute <= d.End.Minutes(); minute += step {
		x := d.x(time.Duration(minute * float64(time.Minute)))
		d.add(`<path d="M%.1f %.0fv4" stroke="#333"/>`, x, top+innerDepth)
		d.add(`<text x="%.1f" y="%.0f" text-anchor="middle">%s</text>`, x, top+innerDepth+17, label(minute))
	}
	d.add(`<text x="%.0f" y="%.0f" text-anchor="middle">minutes</text>`, left+innerWidth/2, height-6)
	d.add(`<path d="M%.0f %.0fv%.0fh%.0f" fill="none" stroke="#333"/>`, left, top, innerDepth, innerWidth)
}

func (d *drawing) lines() {
	for i, line := range d.Lines {
		d.add(`<path d="%s" fill="none" stroke="%s" stroke-width="1.5" stroke-linejoin="round"%s/>`, d.course(line), colour(i), dashes(line))
	}
}

// course is the path of a line.
func (d *drawing) course(line Line) string {
	var path strings.Builder
	var last *Point
	for _, point := range thin(line.Points) {
		if d.Log && point.Value <= 0 {
			continue
		}
		command := 'L'
		if last == nil || line.Gap > 0 && point.At-last.At > line.Gap {
			command = 'M'
		}
		fmt.Fprintf(&path, "%c%.1f %.1f", command, d.x(point.At), d.y(point.Value))
		last = &point
	}
	return path.String()
}

// thin leaves as many points as can be told apart, of those in one place the highest.
func thin(points []Point) []Point {
	if len(points) <= mostPoints {
		return points
	}
	kept := make([]Point, 0, mostPoints)
	for i := range mostPoints {
		part := points[i*len(points)/mostPoints : (i+1)*len(points)/mostPoints]
		highest := part[0]
		for _, point := range part {
			if point.Value > highest.Value {
				highest = point
			}
		}
		kept = append(kept, highest)
	}
	return kept
}

func colour(i int) string { return colours[i%len(colours)] }

func dashes(line Line) string {
	if line.Dashed {
		return ` stroke-dasharray="5 3"`
	}
	return ""
}
