package plot

import (
	"math"
	"slices"
	"strconv"
)

// axis is the axis of the values.
type axis struct {
	low, high float64 // logarithms to base ten, on a logarithmic axis
	log       bool
	ticks     []float64
}

// newAxis makes an axis on which all values of a plot have room: from zero on, or
// between powers of ten.
func newAxis(p Plot) axis {
	var values []float64
	for _, line := range p.Lines {
		for _, point := range line.Points {
			if point.Value > 0 {
				values = append(values, point.Value)
			}
		}
	}
	if len(values) == 0 {
		values = []float64{1}
	}
	if p.Log {
		return logAxis(slices.Min(values), slices.Max(values))
	}
	each := step(slices.Max(values), 5)
	a := axis{high: each * math.Ceil(slices.Max(values)/each)}
	for i := range int(math.Round(a.high/each)) + 1 {
		a.ticks = append(a.ticks, float64(i)*each)
	}
	return a
}

func logAxis(least, most float64) axis {
	a := axis{low: math.Floor(math.Log10(least)), high: math.Ceil(math.Log10(most)), log: true}
	if a.low == a.high {
		a.high++
	}
	for power := a.low; power <= a.high; power++ {
		a.ticks = append(a.ticks, math.Pow(10, power))
	}
	return a
}

// share is how far up a value stands, from 0 to 1.
func (a axis) share(value float64) float64 {
	if a.log {
		value = math.Log10(value)
	}
	return (value - a.low) / (a.high - a.low)
}

// step is the distance of about n ticks from zero to high: 1, 2 or 5 times a power of ten.
func step(high float64, n int) float64 {
	if high <= 0 {
		return 0
	}
	rough := high / float64(n)
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= rough {
			return factor * power
		}
	}
	return 10 * power
}

// label writes a tick, without the dust of floating point.
func label(value float64) string {
	return strconv.FormatFloat(math.Round(value*1e6)/1e6, 'f', -1, 64)
}
