package forecast

import (
	"fmt"
	"math/big"
	"time"

	"github.com/kcp-ipam/ipam/internal/plural"
)

// Day is 24 hours.
const Day = 24 * time.Hour

// horizon is how far a forecast looks ahead.
const horizon = 3650 * Day

// Window is a span of time up to now. A forecast goes by the rate of that time.
type Window struct {
	Name   string // as in "the last day", and the label of the metric
	Length time.Duration
}

// Windows are the windows of each forecast, the shortest first.
var Windows = []Window{{"day", Day}, {"week", 7 * Day}, {"month", 30 * Day}}

// State says whether a forecast has a time.
type State int

// The states of a Forecast.
const (
	// TooLittle: there is no sample from when the window began.
	TooLittle State = iota
	// Never: no more addresses are used than when the window began, or so few that the pool is not
	// full within ten years.
	Never
	// Fills: the pool is full after Forecast.In.
	Fills
)

// Forecast is when a pool will be full at the rate of a window.
type Forecast struct {
	State State
	In    time.Duration // if it Fills; 0: it is full
}

// Full returns the forecast, by the rate of a window, for a pool that now has these numbers of used and free
// addresses. The use at the window's begin is known to the hour for the last day, and else to the day.
func (s Samples) Full(now time.Time, used, free *big.Int, w Window) Forecast {
	began := now.Add(-w.Length)
	var base *big.Int
	for _, sample := range s {
		if sample.At.After(began) {
			break
		}
		base = sample.Used
	}
	if base == nil {
		return Forecast{State: TooLittle}
	}
	if free.Sign() <= 0 {
		return Forecast{State: Fills}
	}
	more := new(big.Int).Sub(used, base)
	if more.Sign() <= 0 {
		return Forecast{State: Never}
	}
	windows, _ := new(big.Rat).SetFrac(free, more).Float64()
	if windows > horizon.Seconds()/w.Length.Seconds() {
		return Forecast{State: Never}
	}
	return Forecast{Fills, time.Duration(windows * float64(w.Length))}
}

// String says the forecast in words: "full in 12 days", "not full at this rate", "too little data".
func (f Forecast) String() string {
	switch {
	case f.State == TooLittle:
		return "too little data"
	case f.State == Never:
		return "not full at this rate"
	case f.In == 0:
		return "full"
	case f.In < time.Hour:
		return "full within an hour"
	case f.In < 2*Day:
		return "full in " + plural.Of(int(f.In/time.Hour), "hour", "hours")
	default:
		return fmt.Sprintf("full in %d days", f.In/Day)
	}
}
