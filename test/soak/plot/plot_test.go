package plot

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// sketch is a plot of an hour, sampled every second, with more lines than colours.
func sketch() Plot {
	p := Plot{Title: "Memory <after GC>, MiB", End: time.Hour, Bands: []Band{{10 * time.Minute, 12 * time.Minute}}}
	for i := range 9 {
		line := Line{Name: fmt.Sprint("process ", i), Dashed: i%2 == 0}
		for second := range 3600 {
			line.Points = append(line.Points, Point{time.Duration(second) * time.Second, 40 + 10*math.Sin(float64(second*i))})
		}
		p.Lines = append(p.Lines, line)
	}
	for i := range 40 {
		p.Marks = append(p.Marks, Mark{time.Duration(i) * 90 * time.Second, []string{"kcp", "etcd", "controller"}[i%3]})
	}
	return p
}

// The picture is well-formed, says what there is to say, and is small.
func TestSVG(t *testing.T) {
	t.Parallel()
	picture := sketch().SVG()
	var said []string
	for decoder := xml.NewDecoder(strings.NewReader(string(picture))); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := token.(xml.CharData); ok {
			said = append(said, string(text))
		}
	}
	for _, want := range []string{"Memory <after GC>, MiB", "process 8", "controller", "etcd", "kcp", "calm", "minutes", "60", "50"} {
		if !slices.Contains(said, want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
	if len(picture) > 60_000 {
		t.Errorf("the picture has %d bytes", len(picture))
	}
}

// Whatever is drawn stays inside, and nothing is NaN.
func TestSVG_Edges(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Plot{
		"nothing":         {},
		"one point":       {End: time.Minute, Lines: []Line{{Points: []Point{{time.Second, 7}}}}},
		"all zero":        {End: time.Minute, Lines: []Line{{Points: []Point{{0, 0}, {time.Minute, 0}}}}},
		"zero, log":       {Log: true, End: time.Minute, Lines: []Line{{Points: []Point{{0, 0}, {time.Minute, 1}}}}},
		"log, one decade": {Log: true, End: time.Minute, Lines: []Line{{Points: []Point{{0, 10}, {time.Minute, 10}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, never := range []string{"NaN", "Inf", `"-`, "%!"} {
				if picture := string(p.SVG()); strings.Contains(picture, never) {
					t.Errorf("the picture has a %s: %s", never, picture)
				}
			}
		})
	}
}

func TestStep(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ high, want float64 }{{5, 1}, {7, 2}, {23, 5}, {99, 20}, {0.3, 0.1}, {1200, 500}} {
		if got := step(tt.high, 5); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("step(%v) = %v; want %v", tt.high, got, tt.want)
		}
	}
}

// A line is broken where nothing was seen, and its peaks outlive the thinning.
func TestLines(t *testing.T) {
	t.Parallel()
	p := Plot{End: time.Hour, Lines: []Line{{Gap: time.Minute, Points: []Point{{0, 1}, {time.Minute, 1}, {5 * time.Minute, 1}}}}}
	d := &drawing{Plot: p, value: newAxis(p)}
	if course := d.course(p.Lines[0]); strings.Count(course, "M") != 2 || strings.Count(course, "L") != 1 {
		t.Errorf("the line with one gap is %s", course)
	}
	many := make([]Point, 10_000)
	many[4321].Value = 5
	if kept := thin(many); len(kept) > mostPoints || !slices.Contains(kept, many[4321]) {
		t.Errorf("of 10,000 points %d are kept, the peak among them: %t", len(kept), slices.Contains(kept, many[4321]))
	}
}
